"""`flask outbox audit`: who did what by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from ...store.report_records import AuditEntry
from ..management.server_lines import printable
from .printing.result import print_result
from .shell import EMAIL_ID, as_json, current_outbox, with_patience


@click.command()
@click.option("--email", type=EMAIL_ID, help="Only what was done to this email.")
@click.option("--before", type=EMAIL_ID, help="Only entries with a smaller id.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@as_json
@with_patience
def audit(email: int | None, before: int | None, limit: int, as_json: bool) -> None:
    """Show what people did by hand, newest first."""
    found = current_outbox().audit(email=email, before=before, limit=limit)
    print_result(found, _lines, as_json)


def _lines(found: Iterable[AuditEntry]) -> Iterator[str]:
    for entry in found:
        which = f" email {entry.email_id}" if entry.email_id else ""
        about = "".join(f" {name}={value}" for name, value in entry.what.items())
        did = f"{entry.who}: {entry.action}{which}{about}"
        yield printable(f"{entry.id:>6}  {entry.at:%Y-%m-%dT%H:%M:%S}  {did}: {entry.result}")
