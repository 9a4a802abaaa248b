"""SQLite's write lock: how a transaction takes it, and how long it waits for it."""

from __future__ import annotations

import random
import sqlite3
import time
from math import ceil
from typing import Any

from sqlalchemy import Connection

LOCK_WAIT = 15.0
"""About how many seconds a transaction waits for the write lock, however short a lease is."""

BEGIN = "BEGIN IMMEDIATE"
_POLL = 0.001
"""About how many seconds pass between two tries for the write lock."""


def begin_immediate(connection: Connection, patience: float) -> None:
    """Take SQLite's write lock now: a transaction that reads first may not get it later.

    Durability is set here too, because the app may have set less for itself. Without a write-ahead
    log FULL is not enough. The commit removes the journal, and only EXTRA syncs the folder then.
    Otherwise the journal could come back after a power loss, and undo the commit.
    """
    driver: Any = connection.connection.dbapi_connection
    if getattr(driver, "in_transaction", False):
        connection.exec_driver_sql("ROLLBACK")  # the app's own "begin" listener opened one
    connection.exec_driver_sql("PRAGMA synchronous = EXTRA")
    connection.exec_driver_sql("PRAGMA busy_timeout = 0")
    try:
        if not _begun_within(driver, patience):
            connection.exec_driver_sql(BEGIN)  # SQLAlchemy's error, if it fails again
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(patience * 1000)}")


def _begun_within(driver: Any, patience: float) -> bool:
    """Ask for the write lock about every millisecond; return False after `patience` seconds.

    SQLite's own busy handler sleeps longer and longer, up to a tenth of a second. But a window is
    recorded in a few milliseconds, so two workers would wait more than they work.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            driver.execute(BEGIN)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                return False
            time.sleep(_POLL * (0.5 + random.random()))  # noqa: S311
        else:
            return True


def lock_tries(patience: float, most: int) -> int:
    """Return how often a transaction waits so many seconds for the write lock."""
    return min(most, max(1, ceil(LOCK_WAIT / patience)))
