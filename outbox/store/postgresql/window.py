"""claimed → sending → result on PostgreSQL: one statement and one round trip per window.

It does what `record` and `window` do in a transaction, for emails with one recipient each. The
windows of several tasks of a process go together in one statement, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy.exc import DBAPIError

from ...domain.delivery.status import Status
from ...domain.delivery.transaction import Verdict
from ..connection.database import TRIES, Database
from ..connection.error_codes import code_of
from ..connection.value_lists import array_text, quoted
from ..records import Advanced, EmailResult, WindowChange
from ..schema.column_types import ENHANCED_LENGTH, REPLY_LENGTH, SERVER_LENGTH, WORKER_LENGTH
from .window_statement import Form, in_a_hurry, past_others

_LOCKED = "55P03"
"""SQLSTATE lock_not_available: the lock time-out passed."""


def advance(database: Database, changes: Sequence[WindowChange], worker: str) -> list[Advanced]:
    """Record the last windows and open the next; return what was done for each.

    No email may be in two of the changes. Several changes are tried only once: whoever asks for
    them together repeats each alone.
    """
    if len(changes) == 1:
        form, values, tries = *_of_one(changes[0]), TRIES
    else:
        form, values, tries = Form.SEVERAL, _of_several(changes), 1
    results = [entry for change in changes for entry in change.results]
    values |= {**_attempts(results, worker), "offset": database.offset}
    try:
        statement = database.built(in_a_hurry, form)
        rows: Sequence[Any] = database.run_alone(statement, values, tries=tries)
    except DBAPIError as error:
        if code_of(error) != _LOCKED:
            raise
        rows = database.run_alone(database.built(past_others, form), values, tries=tries)
    [found] = rows  # arrays or NULL: a row per email would take longer to read
    opened, written = (frozenset(ids or ()) for ids in found)
    return [_done(change, opened, written) for change in changes]


def _done(change: WindowChange, opened: frozenset[int], written: frozenset[int]) -> Advanced:
    missing = (entry.email_id for entry in change.results if entry.email_id not in written)
    return Advanced(opened.intersection(change.following), frozenset(missing))


def _of_one(change: WindowChange) -> tuple[Form, dict[str, Any]]:
    results = change.results
    is_alike = len({_end(entry) for entry in results}) <= 1
    values = {
        **(_one_for_all(results) if is_alike else _results(results)),
        "ids": _ids(entry.email_id for entry in results),
        "token": change.token,
        "following": _ids(sorted(change.following)),
    }
    return (Form.ALIKE if is_alike else Form.EACH), values


def _of_several(changes: Sequence[WindowChange]) -> dict[str, Any]:
    """Return the values for all changes, in the order of ids: so their rows are locked."""
    results = sorted(
        ((entry, change.token) for change in changes for entry in change.results),
        key=lambda pair: pair[0].email_id,
    )
    following = sorted((each, change.token) for change in changes for each in change.following)
    return {
        **_results([entry for entry, _ in results]),
        "ids": _ids(entry.email_id for entry, _ in results),
        "tokens": array_text([str(token) for _, token in results]),
        "following": _ids(email_id for email_id, _ in following),
        "owners": array_text([str(token) for _, token in following]),
    }


def _ids(ids: Iterable[int]) -> str:
    return array_text([str(email_id) for email_id in ids])


def _end(entry: EmailResult) -> tuple[str, int, int, int, float]:
    end = entry.outcome
    return end.status.value, end.attempts_added, end.crashes_added, end.unknown_total, end.delay


def _one_for_all(entries: Sequence[EmailResult]) -> dict[str, Any]:
    # Before the first window there are no ids, so no row gets these values; they only need types.
    unused = (Status.SENDING.value, 0, 0, 0, 0.0)
    end = _end(entries[0]) if entries else unused
    names = ("status", "attempts", "crashes", "unknown_count", "delay")
    return dict(zip(names, end, strict=True))


def _results(entries: Sequence[EmailResult]) -> dict[str, Any]:
    ends = [entry.outcome for entry in entries]
    return {
        "statuses": array_text([end.status for end in ends]),
        "attempts": array_text([str(end.attempts_added) for end in ends]),
        "crashes": array_text([str(end.crashes_added) for end in ends]),
        "unknown_count": array_text([str(end.unknown_total) for end in ends]),
        "delays": array_text([str(end.delay) for end in ends]),
    }


def _attempts(entries: Sequence[EmailResult], worker: str) -> dict[str, Any]:
    kept = [entry for entry in entries if entry.verdict is not Verdict.HALT]
    replies = [entry.outcome.reply for entry in kept]
    return {
        "logged": array_text([str(entry.email_id) for entry in kept]),
        "started": array_text([_microseconds(entry.started_at) for entry in kept]),
        "finished": array_text([_microseconds(entry.finished_at) for entry in kept]),
        "verdicts": array_text([entry.verdict for entry in kept]),
        "phases": array_text([entry.phase for entry in kept]),
        "codes": array_text([str(reply.code) for reply in replies]),
        "enhanced": array_text([quoted(reply.enhanced[:ENHANCED_LENGTH]) for reply in replies]),
        "replies": array_text([quoted(reply.text[:REPLY_LENGTH]) for reply in replies]),
        "worker": worker[:WORKER_LENGTH],
        "servers": array_text([quoted(entry.server[:SERVER_LENGTH]) for entry in kept]),
    }


def _microseconds(seconds: float) -> str:
    """Return a whole number, which is written and read much faster than a date."""
    return str(round(seconds * 1_000_000))
