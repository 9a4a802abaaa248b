"""`flask outbox list` and `show`, line by line for a terminal.

Whatever stands in the table may come from a stranger, a worker's name included: each line is
cleaned as a whole, so that nothing of it steers a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .server_status import printable


def list_line(mail: dict[str, Any]) -> str:
    """Return one email in a line."""
    more = f" +{mail['recipients'] - 1}" if mail["recipients"] > 1 else ""
    when = mail["finished_at"] or mail["due_at"] or mail["created_at"]
    return printable(
        f"{mail['id']:>8}  {mail['status']:<10} {mail['priority']:<7}"
        f" {when[:19]}  {mail['recipient']}{more}"
    )


def mail_lines(mail: dict[str, Any]) -> Iterator[str]:
    """Return all that is known of an email: its recipients, and every attempt."""
    yield from map(printable, _told(mail))


def _told(mail: dict[str, Any]) -> Iterator[str]:
    for name, value in mail.items():
        if value is not None and not isinstance(value, list):
            yield f"{name:<14}{value}"
    for recipient in mail["recipient_list"]:
        reply = f"{recipient.get('code') or ''} {recipient.get('reply') or ''}".strip()
        yield f"  {recipient['status']:<12}{recipient['address']}  {reply}"
    for attempt in mail["attempt_list"]:
        yield (
            f"  {attempt['finished_at'][:19]}  {attempt['verdict']} at {attempt['phase']}:"
            f" {attempt['code']} {attempt['reply']}  [{attempt['worker']}]"
        )
