"""Writes known results one by one, after the database has not taken them together.

So one email whose row refuses its result holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...store.connection.error_codes import describe, is_refusal
from ...store.harmless_log import harmless_log
from ...store.records import EmailResult, Progress
from ...store.transitions.record import without_text

Write = Callable[[Sequence[EmailResult]], Progress]


def write_each(waiting: list[EmailResult], write: Write, refused: dict[int, Exception]) -> None:
    """Write each of these results alone; leave in `waiting` those whose rows are locked.

    An email whose result is refused even without its text is left to the rescue. Its id and error
    are added to `refused`, so that nobody takes the email for unsent. If another error ends this,
    what is not written stays in `waiting`. The result that met the error comes last: it may be at
    fault itself.
    """
    locked: list[EmailResult] = []
    try:
        while waiting:
            entry = waiting.pop(0)
            waiting.append(entry)
            try:
                locked += _locked(entry, write)
            except Exception as error:
                if not is_refusal(error):
                    raise
                refused[entry.email_id] = error
                text = "outbox: email %d cannot get its result: the database refuses that (%s)"
                harmless_log.error(text, entry.email_id, describe(error))
            waiting.pop()
    finally:
        waiting += locked


def _locked(entry: EmailResult, write: Write) -> list[EmailResult]:
    """Write one result, without its text if that is refused; return it if its row is locked."""
    try:
        return [entry] if write([entry]).locked else []
    except Exception as error:
        bare = without_text(entry)
        if bare == entry or not is_refusal(error):
            raise
        return [bare] if write([bare]).locked else []
