"""Configures SQLite for a web app with workers: write-ahead log, time-out and real transactions."""

from __future__ import annotations

from typing import Any

from flask import has_request_context, request
from sqlalchemy import Connection, Engine, event

BUSY_TIMEOUT = 10.0
"""Seconds to wait for another writer's lock."""

CHECKPOINT = 8000
"""Pages of the log, 32 MB, after which a checkpoint writes it into the file. Pages that change in
each window are then written there, and synced, an eighth as often as by default."""

READS = frozenset({"GET", "HEAD", "OPTIONS"})


def configure(engine: Engine) -> None:
    """Prepare the engine's connections if it is SQLite's; leave other engines alone."""
    if engine.dialect.name != "sqlite":
        return
    event.listen(engine, "connect", _open)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "reset", _end)


def _open(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver begins no transactions: `_begin` does
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT * 1000)}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    """Begin a transaction; take the write lock at once wherever a write may follow.

    A transaction that reads first and then writes cannot wait for another writer: SQLite refuses it
    at once with SQLITE_BUSY_SNAPSHOT. Requests that only read take no write lock.
    """
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        return  # the outbox begins its own transactions
    reads = has_request_context() and request.method in READS
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _end(connection: Any, _record: object, _state: object) -> None:
    """Undo what is left when a connection goes back to the pool.

    A commit that fails leaves SQLite's transaction open, and a session takes it for ended. The next
    request with that connection would fail, or commit what this one has called off.
    """
    connection.rollback()
