"""`flask outbox check`: finds what is wrong before the first email is stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from flask.cli import with_appcontext

from ...domain.errors import ConfigurationError
from ...store.bounded_waits import bounded_reads
from ...store.connection.galera.causal import as_it_is
from ..dropin.extensions import ways_round
from ..management.checks.celery_app import celery_findings
from ..management.checks.codes import Code
from ..management.checks.crashing import crashing_findings
from ..management.checks.database import database_findings
from ..management.checks.finding import Finding, error
from ..management.checks.instance import instance_findings
from ..management.checks.migrations import migration_findings
from ..management.checks.settings import file_findings, settings_findings
from ..management.server_lines import printable
from .printing.json_output import print_json
from .shell import as_json, current_runtime
from .silence import bounded

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


@click.command()
@click.option("--strict", is_flag=True, help="Exit 1 on a warning, too: a gate for a deployment.")
@click.option(
    "--accept",
    metavar="CODE",
    multiple=True,
    type=click.Choice(list(map(str, Code))),
    help="With --strict: this warning is no reason to exit 1. Give it several times for several.",
)
@as_json
@bounded
@click.pass_context
def check(context: click.Context, strict: bool, accept: tuple[str, ...], as_json: bool) -> None:
    """Examine settings, schema, broker and workers; exit 1 when something is wrong."""
    try:
        findings = context.invoke(_current)
    except (ConfigurationError, RuntimeError) as refusal:  # of init_app, or of Flask-SQLAlchemy
        findings = [error(" ".join(str(refusal).split()), Code.SETTINGS)]
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            line = printable(f"{finding.level:<6} {finding.text}")
            click.secho(line, fg=_COLOURS[finding.level])
    if any(_is_fatal(finding, strict, accept) for finding in findings):
        raise SystemExit(1)


def _is_fatal(finding: Finding, strict: bool, accepted: tuple[str, ...]) -> bool:
    """Return whether the finding fails the check. An error keeps emails back, and always does."""
    if finding.level == "warn":
        return strict and finding.code not in accepted
    return finding.level == "error"


@with_appcontext
def _current() -> list[Finding]:
    return examine(current_runtime())


def examine(runtime: Runtime) -> list[Finding]:
    """Return the findings on settings, database, Celery and its workers."""
    found = [
        *settings_findings(runtime),
        *(error(text, Code.BYPASS) for text in ways_round(runtime.app)),
        *file_findings(runtime),
        *database_findings(runtime),
    ]
    if any(one.code is Code.SESSION for one in found):
        return found  # no table can be read
    # If a table is locked, or a node lags behind, the findings above tell.
    with bounded_reads(runtime.database), as_it_is():
        return [
            *found,
            *migration_findings(runtime),
            *instance_findings(runtime),
            *crashing_findings(runtime),
            *celery_findings(runtime),
        ]


_COLOURS = {"ok": "green", "warn": "yellow", "error": "red"}
