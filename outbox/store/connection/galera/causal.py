"""Has a Galera node apply what is committed, before it answers a statement of the outbox.

Another node may have taken the commit. A batch whose window was opened there is not seen here, and
a content that was enqueued there seems to be missing. So each connection that is lent waits for
both, and is given back as it came: an app's own statements wait only if the app wants it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

from sqlalchemy import Connection, Engine

from ..facts import facts_of

EVERYTHING = 7
"""The bits of `wsrep_sync_wait`: reads, updates and deletes, inserts."""

_ASK = "SHOW SESSION VARIABLES LIKE 'wsrep_on'"
_OWN = "SELECT @@SESSION.wsrep_sync_wait"
_SET = "SET SESSION wsrep_sync_wait = {}"
_IS_NODE, _LENT = "outbox_is_node", "outbox_sync_wait"
"""The keys under which the pool keeps what is known of a connection, and what it had when lent."""

_alone: WeakSet[Engine] = WeakSet()
"""Engines whose servers are in no cluster. A server that joins one is found at the next start."""

_as_it_is: ContextVar[bool] = ContextVar("_as_it_is", default=False)


@contextmanager
def as_it_is() -> Iterator[None]:
    """Have the statements of the block wait for no other node: old rows are better than none."""
    before = _as_it_is.set(True)
    try:
        yield
    finally:
        _as_it_is.reset(before)


def wait_for_others(connection: Connection, driver: Any) -> None:
    """Have this connection's statements wait for what other nodes have committed."""
    engine, info = connection.engine, connection.info
    if not facts_of(engine.dialect.name).may_be_of_a_cluster or engine in _alone:
        return
    if _as_it_is.get():
        return
    if _IS_NODE not in info:
        if not any(value == "ON" for _, value in _asked(driver, _ASK)):
            _alone.add(engine)
            return
        info[_IS_NODE] = True
    # Asked anew each time: the app may set it in a session of its own, on this very connection.
    [(own,)] = _asked(driver, _OWN)
    if _is_less(own):
        info[_LENT] = own
        _run(driver, _SET.format(EVERYTHING))


def wait_no_more(connection: Connection, driver: Any) -> None:
    """Have this connection wait as it did before it was lent."""
    own = connection.info.pop(_LENT, None)
    if own is not None:
        _run(driver, _SET.format(own))


def _is_less(own: int) -> bool:
    """Whether the connection, as the app has it, waits for less than the outbox needs."""
    return own & EVERYTHING != EVERYTHING


def _asked(driver: Any, statement: str) -> list[Any]:
    with closing(driver.cursor()) as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def _run(driver: Any, statement: str) -> None:
    with closing(driver.cursor()) as cursor:
        cursor.execute(statement)
