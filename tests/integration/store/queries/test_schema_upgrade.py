"""The SQL of `docs/upgrading.md` makes version 6 of the tables of version 5, with their rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import DBAPIError

from outbox.store.connection.database import Database
from outbox.store.control.counter import UNKNOWN, read
from outbox.store.queries.inspect_schema import Schema, inspect_schema
from outbox.store.schema.tables import define
from outbox.store.schema.version import VERSION
from tests.support.shop.schema import written_statements

pytestmark = pytest.mark.each_database

PAGE = Path(__file__).resolve().parents[4] / "docs" / "upgrading.md"
TITLES = {"postgresql": "PostgreSQL", "mariadb": "MariaDB and MySQL", "sqlite": "SQLite"}
OLD_NAMES = {
    "crashes": "deliveries",
    "unknown_count": "doubts",
    "unknown_token": "doubt_token",
    "emails": "mails",
    "ck_outbox_email_unknown": "ck_outbox_email_doubt",
    f"ix_outbox_schema_{VERSION}": "ix_outbox_schema_5",
}
_NAMES = re.compile(rf"\b({'|'.join(OLD_NAMES)})\b")
_EMAIL = """
INSERT INTO outbox_email (id, content_id, created_at, due_at, size, priority, attempts, deliveries,
    doubts, doubt_token, recipients, smtputf8, eightbit, status, lane, sender, recipient,
    message_id, headers)
VALUES (7, 1, '2026-01-01 12:00:00', '2026-01-01 12:00:00', 1, 1, 2, 3,
    1, '{token}', 1, {no}, {no}, 'pending', '', 'a@x.example',
    'b@x.example', '<1@x.example>', '')
"""
TOKEN = UUID(int=1)
_CONTENT = """
INSERT INTO outbox_content (id, size, crc32, body, created_at)
VALUES (1, 1, 0, 'x', '2026-01-01 12:00:00')
"""


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    made = sa.create_engine(database_url)
    yield made
    made.dispose()


def run(engine: sa.Engine, statements: list[str]) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def version_5(engine: sa.Engine) -> None:
    """Make the tables of version 5: but for names, and what later ones added, they are the same."""
    metadata = sa.MetaData()
    define(metadata)
    statements = written_statements(metadata, engine)
    run(engine, [_NAMES.sub(lambda found: OLD_NAMES[found[0]], one) for one in statements])


def steps(dialect: str) -> list[str]:
    """Return the statements that the page has for version 6 on this database."""
    section = PAGE.read_text("utf-8").partition("Version 6 renames")[2]
    block = re.search(rf"On {TITLES[dialect]}[^`]*```sql\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return [one.strip() for one in block[1].split(";") if one.strip()]


def constraints(engine: sa.Engine) -> dict[str, str]:
    found = sa.inspect(engine).get_check_constraints("outbox_email")
    return {str(each["name"]): str(each["sqltext"]) for each in found}


@pytest.mark.long
def test_the_page_s_statements_make_version_6_of_version_5(engine: sa.Engine) -> None:
    dialect = engine.dialect.name
    version_5(engine)
    no = "false" if dialect == "postgresql" else "0"
    token = TOKEN.hex if dialect == "sqlite" else str(TOKEN)
    counter = "INSERT INTO outbox_counter (name, value) VALUES ('in_doubt', 4)"
    run(engine, [_CONTENT, _EMAIL.format(no=no, token=token), counter])
    run(engine, steps(dialect))

    metadata = sa.MetaData()
    database = Database(engine, define(metadata))
    assert inspect_schema(database) == Schema(version=6)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        differences = {one[1].name for one in compare_metadata(context, metadata)}
        versions = (5, 6, VERSION)  # the older marks may stay
        assert differences == {f"ix_outbox_schema_{version}" for version in versions}
        [row] = connection.execute(sa.select(database.tables.email)).all()
        assert (row.attempts, row.crashes, row.unknown_count) == (2, 3, 1)
        assert row.unknown_token == TOKEN
        assert read(connection, database) == {UNKNOWN: 4}
    with pytest.raises(DBAPIError):  # the constraint still holds
        run(engine, ["UPDATE outbox_email SET status = 'failed', due_at = NULL"])


def test_an_upgraded_database_has_the_constraints_of_a_new_one(engine: sa.Engine) -> None:
    version_5(engine)
    run(engine, steps(engine.dialect.name))
    upgraded = constraints(engine)
    run(engine, [f"DROP TABLE {table}" for table in ("outbox_recipient", "outbox_email")])
    metadata = sa.MetaData()
    tables = define(metadata)
    metadata.create_all(engine, tables=[tables.email])
    new = constraints(engine)
    if engine.dialect.name == "sqlite":  # the page says so
        new["ck_outbox_email_doubt"] = new.pop("ck_outbox_email_unknown")
    assert upgraded.keys() == new.keys()
    assert {re.sub(r"[\"`]", "", text) for text in upgraded.values()} == {
        re.sub(r"[\"`]", "", text) for text in new.values()
    }


@pytest.mark.long
def test_the_page_s_statements_for_older_tables_run(engine: sa.Engine) -> None:
    page = PAGE.read_text("utf-8").partition("Version 6 renames")[0]
    storage, contents = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    metadata = sa.MetaData()
    database = Database(engine, define(metadata))
    metadata.create_all(engine)
    run(engine, [_CONTENT.replace("2026-01-01", "2025-12-31"), contents.replace(";", "")])
    with engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count(database.tables.content.c.id))) == 0
    if engine.dialect.name == "postgresql":
        run(engine, [one for one in storage.split(";") if one.strip()])
    assert inspect_schema(database) == Schema(version=VERSION)


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_the_page_s_statements_for_sqlite_make_version_12_of_version_11(engine: sa.Engine) -> None:
    page = PAGE.read_text("utf-8").partition("## From version 11 to version 12")[2]
    block = re.search(r"```sql\n(.*?)```", page, re.DOTALL)
    assert block is not None
    metadata = sa.MetaData()
    database = Database(engine, define(metadata))
    metadata.create_all(engine)
    older = [
        "DROP INDEX ix_outbox_email_attention",
        "ALTER TABLE outbox_email DROP COLUMN attention_status",
        "CREATE INDEX ix_outbox_email_attention ON outbox_email (attention_at, id)"
        " WHERE attention_at IS NOT NULL",
        f"DROP INDEX ix_outbox_schema_{VERSION}",
        "CREATE INDEX ix_outbox_schema_11 ON outbox_pause (paused_at)",
    ]
    run(engine, older)
    assert inspect_schema(database).version == 11
    run(engine, [one.strip() for one in block[1].split(";") if one.strip()])
    assert inspect_schema(database) == Schema(version=12)
    with engine.connect() as connection:
        assert not compare_metadata(MigrationContext.configure(connection), metadata)


@pytest.mark.databases("sqlite")
def test_the_page_s_statements_for_sqlite_bring_autoincrement_back(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    tables = define(metadata)
    metadata.create_all(engine)
    new = _written(engine)
    tables.email.dialect_options["sqlite"]["autoincrement"] = False
    run(engine, ["DROP TABLE outbox_email"])
    metadata.create_all(engine)  # as a batch migration has left it
    assert "AUTOINCREMENT" in new
    assert "AUTOINCREMENT" not in _written(engine)
    email = tables.email.insert().values(
        content_id=1, due_at=sa.func.now(), created_at=sa.func.now(), size=1, priority=1,
        attempts=0, crashes=0, unknown_count=0, recipients=1, smtputf8=False, eightbit=False,
        status="pending", sender="a", recipient="b", message_id="c", headers=b"",
    )  # fmt: skip
    with engine.begin() as connection:
        connection.execute(email.values(id=6))
    run(engine, ["INSERT INTO outbox_purge (id, walked, searched) VALUES (1, 7, 0)"])

    section = PAGE.read_text("utf-8").partition("run these statements once")[2]
    block = re.search(r"```sql\n(.*?)```", section, re.DOTALL)
    assert block is not None
    statements = [one.strip() for one in block[1].split(";") if one.strip()]
    for _ in range(2):  # the second time changes nothing
        run(engine, statements[:-1])
        engine.dispose()
        with engine.begin() as connection:
            assert connection.exec_driver_sql(statements[-1]).scalars().all() == ["ok"]
    assert _written(engine) == new
    with engine.begin() as connection:
        assert connection.execute(email).inserted_primary_key == (8,)


def _written(engine: sa.Engine) -> str:
    """Return how SQLite has the table written, without blanks before the ends of lines."""
    with engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT sql FROM sqlite_schema WHERE name = 'outbox_email'"
        )
        return re.sub(r",\s+", ",\n", found.scalar_one())
