"""Writes known results one by one, after the database has not taken them together.

So one email whose row refuses its result holds up no other. Nor does one whose row answers with an
error that no code tells from an outage, such as that of a trigger of the app's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ...store.connection.error_codes import describe, is_refusal, is_too_long, may_be_of_a_row
from ...store.harmless_log import harmless_log
from ...store.records import EmailResult, WriteResult
from ...store.transitions.record import without_text

Write = Callable[[Sequence[EmailResult]], WriteResult]

_TOO_LONG = (
    "to open its row takes longer than the database allows a statement (statement_timeout,"
    " max_statement_time)"
)
"""A limit that is too small for any row, or a slow database, is no fault of this one."""


def write_each(
    waiting: list[EmailResult],
    write: Write,
    refused: dict[int, Exception],
    *,
    progress: Callable[[], object] = lambda: None,
) -> dict[int, Exception]:
    """Write each of these results alone; leave in `waiting` those that are to be written again.

    These are the results whose rows are locked, and those that are lost. Those stay there, too,
    that fail with an error that may be their rows' own, though it does not say so. These errors are
    returned by the emails' ids.

    An email whose result is refused even without its text is left to the rescue. Its id and error
    are added to `refused`, so that nobody takes the email for unsent. If another error ends this,
    what is not written stays in `waiting`. The result that met the error comes last: it may be at
    fault itself. `progress` is called before each write, which may take as long as the database
    lets a statement run.
    """
    kept: list[EmailResult] = []
    failed: dict[int, Exception] = {}
    try:
        while waiting:
            entry = waiting.pop(0)
            waiting.append(entry)
            progress()
            try:
                kept += _unwritten(entry, write)
            except Exception as error:
                if not may_be_of_a_row(error):
                    raise
                if is_refusal(error):
                    refused[entry.email_id] = error
                    tell(entry, "the database refuses that", error)
                else:
                    failed[entry.email_id] = error
                    kept.append(entry)
            waiting.pop()
    finally:
        waiting += kept
    return failed


def open_each(
    ids: Sequence[int],
    open_: Callable[[Sequence[int]], WriteResult],
    *,
    progress: Callable[[], object],
) -> tuple[frozenset[int], list[Exception]]:
    """Open each of these emails alone; return which are open, and the errors of rows that fail.

    `progress` is called before each.
    """
    opened, failed = frozenset[int](), list[Exception]()
    for email_id in ids:
        progress()
        try:
            opened |= open_([email_id]).opened
        except Exception as error:
            if not may_be_of_a_row(error):
                raise
            failed.append(error)
            why = _TOO_LONG if is_too_long(error) else "its row does not open"
            text = "outbox: email %d cannot be sent: %s (%s)"
            harmless_log.error(text, email_id, why, describe(error))
    return opened, failed


def tell(entry: EmailResult, why: str, error: Exception) -> None:
    """Log that an email cannot get its result."""
    text = "outbox: email %d cannot get its result: %s (%s)"
    harmless_log.error(text, entry.email_id, why, describe(error))


def unwritten(results: Iterable[EmailResult], done: WriteResult) -> list[EmailResult]:
    """Return those of these results that are to be written again after this write."""
    again = [entry for entry in results if entry.email_id in done.unwritten]
    return [replace(e, is_sought=True) if e.email_id in done.lost else e for e in again]


def _unwritten(entry: EmailResult, write: Write) -> list[EmailResult]:
    """Write one result, without its text if that is refused; return it if it is to come again."""
    try:
        return unwritten([entry], write([entry]))
    except Exception as error:
        bare = without_text(entry)
        if bare == entry or not is_refusal(error):
            raise
        return unwritten([bare], write([bare]))
