"""Isolates emails whose rows the database refuses, so that they do not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlalchemy import Connection

from ...domain.counted import counted
from ..harmless_log import harmless_log
from .endings import taken_back_on_error
from .error_codes import describe, is_refusal


def each_for_itself(
    connection: Connection,
    ids: Collection[int],
    work: Callable[[frozenset[int]], object],
    what: str,
) -> frozenset[int]:
    """Do `work` for these emails; return the ids of those whose rows the database refuses.

    If the work is refused, it is rolled back and repeated for each half of the emails, until each
    faulty email is alone. One line in the log tells that they could not be `what`: "expired".
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
        text = "outbox: %s could not be %s, email %d first: the database refuses that (%s)"
        harmless_log.error(text, counted(len(faulty), "email"), what, first, describe(error))
    return frozenset(faulty)
