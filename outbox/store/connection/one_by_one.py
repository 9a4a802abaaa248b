"""One email's fault stops no other: what is refused for all is done for each half by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from sqlalchemy import Connection

from .endings import taken_back_on_error
from .error_codes import describe, is_refusal

_log = logging.getLogger("outbox")


def each_for_itself(
    connection: Connection,
    ids: Collection[int],
    work: Callable[[frozenset[int]], object],
    what: str,
) -> frozenset[int]:
    """Do `work` for these emails, but for those whose rows the database refuses; return these.

    What was refused is undone, and done again for each half of the emails, until the faulty ones
    stand alone. Of them one line is logged.
    """
    faulty: dict[int, BaseException] = {}

    def attempt(some: list[int]) -> None:
        try:
            with taken_back_on_error(connection), connection.begin_nested():
                work(frozenset(some))
        except Exception as error:
            if not is_refusal(error):
                raise
            if len(some) == 1:
                faulty[some[0]] = error
                return
            half = len(some) // 2
            attempt(some[:half])
            attempt(some[half:])

    if ids:
        attempt(sorted(ids))
    if faulty:
        first, error = next(iter(faulty.items()))
        text = "outbox: the database refuses to have %d emails %s, email %d first (%s)"
        _log.error(text, len(faulty), what, first, describe(error))
    return frozenset(faulty)
