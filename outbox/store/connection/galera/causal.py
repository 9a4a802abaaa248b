"""Has a Galera node apply what is committed, before it answers a statement of the outbox.

Another node may have taken the commit. A batch whose window was opened there is not seen here, and
a content that was enqueued there seems to be missing. So each connection that is lent waits for
both, and is given back as it came: an app's own statements wait only if the app wants it.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any
from weakref import WeakSet

from sqlalchemy import Connection, Engine

from ..facts import facts_of

EVERYTHING = 7
"""The bits of `wsrep_sync_wait`: reads, updates and deletes, inserts."""

_ASK = "SHOW SESSION VARIABLES WHERE variable_name IN ('wsrep_on', 'wsrep_sync_wait')"
_SET = "SET SESSION wsrep_sync_wait = {}"
_OWN = "outbox_sync_wait"
"""The key under which the pool keeps what a connection had before it was lent first."""

_alone: WeakSet[Engine] = WeakSet()
"""Engines whose servers are in no cluster. A server that joins one is found at the next start."""


def wait_for_others(connection: Connection, driver: Any) -> None:
    """Have this connection's statements wait for what other nodes have committed."""
    engine = connection.engine
    if not facts_of(engine.dialect.name).may_be_of_a_cluster or engine in _alone:
        return
    if _OWN not in connection.info:
        shown = _shown(driver)
        if shown.get("wsrep_on") != "ON":
            _alone.add(engine)
            return
        connection.info[_OWN] = int(shown["wsrep_sync_wait"])
    if _is_less(connection):
        _run(driver, _SET.format(EVERYTHING))


def wait_no_more(connection: Connection, driver: Any) -> None:
    """Have this connection wait as it did before it was lent."""
    if _is_less(connection):
        _run(driver, _SET.format(connection.info[_OWN]))


def _is_less(connection: Connection) -> bool:
    """Whether the connection, as the app has it, waits for less than the outbox needs."""
    own: int = connection.info.get(_OWN, EVERYTHING)
    return own & EVERYTHING != EVERYTHING


def _shown(driver: Any) -> dict[str, str]:
    with closing(driver.cursor()) as cursor:
        cursor.execute(_ASK)
        return {str(name): str(value) for name, value in cursor.fetchall()}


def _run(driver: Any, statement: str) -> None:
    with closing(driver.cursor()) as cursor:
        cursor.execute(statement)
