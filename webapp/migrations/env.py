"""Alembic's environment: one process at a time migrates, in one transaction where it can.

PostgreSQL and SQLite undo a migration that fails. MariaDB and MySQL commit each change of a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from alembic import context
from flask import current_app
from sqlalchemy import Connection, Engine, text

LOCK = "foolscap.migrate"
LOCK_NUMBER = 7_046_021_377_612_544_102
"""PostgreSQL's advisory locks have numbers. Any number will do that nobody else uses."""
PATIENCE = 300
"""Seconds to wait for another process's migration on MariaDB and MySQL."""


def run() -> None:
    """Run the migrations that the command asks for on the app's database."""
    with _engine().connect() as connection, _alone(connection), _copying(connection):
        context.configure(
            connection=connection,
            target_metadata=_migrate().db.metadata,
            transactional_ddl=connection.dialect.name in ("postgresql", "sqlite"),
            **_migrate().configure_args,
        )
        with context.begin_transaction():
            _lock(connection)
            context.run_migrations()


def run_offline() -> None:
    """Write the statements as SQL instead."""
    context.configure(
        dialect_name=_engine().dialect.name,
        target_metadata=_migrate().db.metadata,
        literal_binds=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def _migrate() -> Any:
    return current_app.extensions["migrate"]


def _engine() -> Engine:
    engine: Engine = _migrate().db.engine
    return engine


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """On MariaDB and MySQL, hold a lock of the session: their transactions end at each change."""
    if connection.dialect.name not in ("mariadb", "mysql"):
        yield
        return
    got = connection.scalar(text("SELECT GET_LOCK(:name, :patience)"), _values())
    connection.commit()  # Alembic commits only transactions that it began
    if got != 1:
        raise RuntimeError(f"another process has been migrating for {PATIENCE} seconds")
    try:
        yield
    finally:
        connection.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": LOCK})


@contextmanager
def _copying(connection: Connection) -> Iterator[None]:
    """On SQLite, have no foreign keys: a table is changed by a copy, and the old one is dropped.

    That would be refused while a row points to it. Within a transaction the setting is ignored, so
    the driver is asked: SQLAlchemy would begin one.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    driver: Any = connection.connection.dbapi_connection
    (before,) = driver.execute("PRAGMA foreign_keys").fetchone()
    driver.execute("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        driver.execute(f"PRAGMA foreign_keys = {before}")


def _values() -> dict[str, Any]:
    return {"name": LOCK, "patience": PATIENCE}


def _lock(connection: Connection) -> None:
    """On PostgreSQL, lock until the transaction ends. SQLite's began with the write lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_NUMBER})


if context.is_offline_mode():
    run_offline()
else:
    run()
