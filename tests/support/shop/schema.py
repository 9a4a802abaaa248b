"""The tables of a test's shop, in which the database itself refuses a step off the lifecycle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import sqlalchemy as sa

from outbox.domain.delivery.status import ARROWS, Status
from outbox.store.schema.tables import define

_TRIGGERS = {
    "sqlite": (
        "CREATE TRIGGER {name} BEFORE {event} ON {table} WHEN {illegal}"
        " BEGIN SELECT RAISE(ABORT, 'illegal step'){code}; END",
    ),
    "postgresql": (
        "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {illegal} THEN"
        " RAISE EXCEPTION 'illegal step'{code}; END IF;"
        " IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()",
    ),
    "mariadb": (
        "CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW BEGIN IF {illegal} THEN"
        " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'illegal step'{code}; END IF; END",
    ),
}

_CODES = {
    "sqlite": " WHERE {code}",  # its triggers choose no code: an expression fails
    "postgresql": " USING ERRCODE = '{code}'",
    "mariadb": ", MYSQL_ERRNO = {code}",
}
"""How a trigger raises an error of its own code."""


def orders(metadata: sa.MetaData) -> sa.Table:
    """Return the shop's own table on this metadata, making it the first time."""
    if (known := metadata.tables.get("orders")) is not None:
        return known
    return sa.Table(
        "orders",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("customer", sa.String(50), unique=True),
        mysql_engine="InnoDB",
    )


def fill(url: str) -> None:
    """Create a shop's tables in the empty database at this URL."""
    engine = sa.create_engine(url)
    create(_metadata(), engine)
    engine.dispose()


@cache
def _metadata() -> sa.MetaData:
    metadata = sa.MetaData()
    define(metadata)
    orders(metadata)
    return metadata


_ddl: dict[tuple[str, ...], list[str]] = {}


def create(metadata: sa.MetaData, engine: sa.Engine) -> None:
    """Create the tables and the trigger.

    To write the statements takes SQLAlchemy longer than a database to run them, and they are the
    same for the same tables: they are kept.
    """
    known = (engine.dialect.name, *sorted(metadata.tables))
    if known not in _ddl:
        _ddl[known] = [*written_statements(metadata, engine), *_lifecycle(engine.dialect.name)]
    with engine.begin() as connection:
        for statement in _ddl[known]:
            connection.exec_driver_sql(statement)


def written_statements(metadata: sa.MetaData, engine: sa.Engine) -> list[str]:
    """Return the statements that create the tables and their indexes."""
    made: list[str] = []
    metadata.create_all(
        sa.create_mock_engine(
            engine.url, lambda ddl, *_, **__: made.append(str(ddl.compile(dialect=engine.dialect)))
        ),
        checkfirst=False,
    )
    return made


def _lifecycle(dialect: str) -> list[str]:
    steps = [(arrow.source, arrow.target) for arrow in ARROWS] + [(s, s) for s in Status]
    legal = " OR ".join(f"(OLD.status = '{a}' AND NEW.status = '{b}')" for a, b in steps)
    return _trigger(dialect, "legal", "outbox_email", f"NOT ({legal})")


def _trigger(
    dialect: str, name: str, table: str, illegal: str, *, event: str = "UPDATE", code: str = ""
) -> list[str]:
    code = _CODES[dialect].format(code=code) if code else ""
    return [
        statement.format(name=name, table=table, illegal=illegal, event=event, code=code)
        for statement in _TRIGGERS[dialect]
    ]


@contextmanager
def refusing(
    engine: sa.Engine,
    table: str,
    condition: str,
    *,
    event: str = "UPDATE",
    code: str = "",
    ends: str = "ABORT",
) -> Iterator[None]:
    """Have the database refuse each change of a row that fulfils this, as it does faulty data.

    With a `code` it does so as a trigger of the app's does that raises an error of its own. On
    SQLite it ends the statement (ABORT), or the whole transaction (ROLLBACK).
    """
    dialect = engine.dialect.name
    with engine.begin() as connection:
        for statement in _trigger(dialect, "faulty", table, condition, event=event, code=code):
            connection.exec_driver_sql(statement.replace("RAISE(ABORT", f"RAISE({ends}"))
    try:
        yield
    finally:
        _allow(engine, table)


def _allow(engine: sa.Engine, table: str) -> None:
    dialect = engine.dialect.name
    with engine.begin() as connection:
        on = f" ON {table}" if dialect == "postgresql" else ""
        connection.exec_driver_sql(f"DROP TRIGGER faulty{on}")
