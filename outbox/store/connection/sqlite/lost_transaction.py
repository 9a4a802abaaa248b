"""SQLite: one row may end the whole transaction. It is repeated without that row.

A trigger with RAISE(ROLLBACK) does so, or a constraint with ON CONFLICT ROLLBACK. The savepoint is
gone then, too. What went on would commit without what was done before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection

from ..facts import facts_of
from .write_lock import BEGIN

Result = TypeVar("Result")

_KEY = "outbox_faulty"


class TransactionLost(Exception):
    """The transaction is gone with all that it wrote; without the `faulty` emails it may pass."""

    def __init__(self, error: Exception, faulty: Mapping[int, Exception]) -> None:
        super().__init__("an email's row has ended the whole transaction")
        self.error, self.faulty = error, faulty


def is_lost(connection: Connection) -> bool:
    """Return whether an error has ended the transaction of the outbox's own connection."""
    if not facts_of(connection.dialect.name).one_writer:
        return False
    driver: Any = connection.connection.driver_connection
    return not getattr(driver, "in_transaction", True)


def begin_scratch(connection: Connection) -> None:
    """Begin another transaction in the place of a lost one. It must be rolled back.

    It only shows which rows fail: each statement without a transaction would commit.
    """
    connection.exec_driver_sql(BEGIN)  # `begin_immediate` has set how long it waits


def known_faulty(connection: Connection) -> Mapping[int, Exception]:
    """Return the emails of which a try before this one has found that their rows fail."""
    found: Mapping[int, Exception] = connection.info.get(_KEY, {})
    return found


def repeat(
    run: Callable[[Callable[[Connection], Result]], Result],
    work: Callable[[Connection], Result],
    lost: TransactionLost,
) -> Result:
    """`run` the work again, as long as each try finds further faulty emails; return its result."""
    faulty = dict[int, Exception]()
    while not faulty.keys() >= lost.faulty.keys():
        faulty |= lost.faulty
        try:
            return run(partial(_knowing, faulty, work))
        except TransactionLost as again:
            lost = again
    raise lost.error


def _knowing(
    faulty: Mapping[int, Exception], work: Callable[[Connection], Result], connection: Connection
) -> Result:
    info = connection.info
    info[_KEY] = faulty
    try:
        return work(connection)
    finally:
        info.pop(_KEY, None)
