"""The tables of a test's shop, in which the database itself refuses a step off the lifecycle."""

from __future__ import annotations

import sqlalchemy as sa

from outbox.domain.lifecycle import ARROWS, Status

_TRIGGERS = {
    "sqlite": (
        "CREATE TRIGGER legal BEFORE UPDATE ON outbox_email WHEN {illegal}"
        " BEGIN SELECT RAISE(ABORT, 'illegal step'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION legal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {illegal} THEN"
        " RAISE EXCEPTION 'illegal step'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER legal BEFORE UPDATE ON outbox_email FOR EACH ROW EXECUTE FUNCTION legal()",
    ),
    "mariadb": (
        "CREATE TRIGGER legal BEFORE UPDATE ON outbox_email FOR EACH ROW BEGIN IF {illegal} THEN"
        " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'illegal step'; END IF; END",
    ),
}


_ddl: dict[tuple[str, ...], list[str]] = {}


def create(metadata: sa.MetaData, engine: sa.Engine) -> None:
    """Create the tables and the trigger.

    To write the statements takes SQLAlchemy longer than a database to run them, and they are the
    same for the same tables: they are kept.
    """
    known = (engine.dialect.name, *sorted(metadata.tables))
    if known not in _ddl:
        _ddl[known] = [*_statements(metadata, engine), *_lifecycle(engine.dialect.name)]
    with engine.begin() as connection:
        for statement in _ddl[known]:
            connection.exec_driver_sql(statement)


def _statements(metadata: sa.MetaData, engine: sa.Engine) -> list[str]:
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
    return [statement.format(illegal=f"NOT ({legal})") for statement in _TRIGGERS[dialect]]
