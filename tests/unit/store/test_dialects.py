"""The statements as databases without a server here would get them: compiled, not run."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import MetaData, insert, select
from sqlalchemy.dialects import mssql, mysql, postgresql, sqlite
from sqlalchemy.dialects.mysql import mariadb
from sqlalchemy.schema import CreateIndex, CreateTable

import outbox
from outbox.domain.priority import Priority
from outbox.domain.scheduling.claim_plan import ClaimRequest
from outbox.store.connection import row_locks
from outbox.store.connection.row_locks import kept
from outbox.store.due_emails import due_statement
from outbox.store.postgresql import claim as postgresql_claim
from outbox.store.schema.clock import clock
from outbox.store.schema.tables import Tables, define
from outbox.store.transitions.claim import guarded_statement, returning_statement

TOKEN = UUID(int=1)
SHARE = ClaimRequest(lane="@gmail.com", priority=Priority.NORMAL, batches=1, size=10)
DIALECTS: dict[str, Any] = {
    "postgresql": postgresql.dialect,
    "sqlite": sqlite.dialect,
    "mysql": mysql.dialect,
    "mariadb": mariadb.MariaDBDialect,
    "mssql": mssql.dialect,
}
every_dialect = pytest.mark.parametrize("name", DIALECTS)


@pytest.fixture
def tables() -> Tables:
    return define(MetaData())


def sql(statement: Any, name: str) -> str:
    return re.sub(r"\s+", " ", str(statement.compile(dialect=DIALECTS[name]())))


def due(tables: Tables, name: str) -> str:
    return sql(due_statement(tables, SHARE, clock()), name)


def test_postgresql_claims_in_one_statement_from_a_materialised_cte(tables: Tables) -> None:
    statement = postgresql_claim.claim_statement(tables, SHARE, TOKEN, clock())
    text = sql(statement, "postgresql")
    assert re.match(r"WITH due AS MATERIALIZED \(SELECT .* FOR UPDATE SKIP LOCKED\)", text)
    assert "LIMIT" in text
    assert "UPDATE outbox_email SET" in text
    assert text.endswith("RETURNING outbox_email.id, outbox_email.crashes")
    assert "clock_timestamp()" in text
    assert "now()" not in text


def test_sqlite_claims_in_one_statement_without_a_lock_clause(tables: Tables) -> None:
    text = sql(returning_statement(tables, SHARE, TOKEN, clock()), "sqlite")
    assert text.startswith("UPDATE outbox_email SET")
    assert "RETURNING id, crashes" in text
    assert "FOR UPDATE" not in text


@pytest.mark.parametrize("name", ["postgresql", "mysql", "mariadb"])
def test_due_emails_that_others_lock_are_passed_over(tables: Tables, name: str) -> None:
    assert due(tables, name).endswith("FOR UPDATE SKIP LOCKED")


def test_sql_server_says_skip_locked_as_a_hint_and_not_as_a_clause(tables: Tables) -> None:
    text = due(tables, "mssql")
    assert "outbox_email WITH (ROWLOCK, UPDLOCK, READPAST)" in text
    assert "FOR UPDATE" not in text
    assert "SELECT TOP" in text
    assert "sysdatetimeoffset()" in text


@pytest.mark.parametrize(
    ("lock", "hint"),
    [
        (row_locks.lock, "WITH (ROWLOCK, UPDLOCK, READPAST)"),
        (row_locks.lock_ids, "WITH (ROWLOCK, UPDLOCK, READPAST)"),
        (row_locks.lock_claim, "WITH (ROWLOCK, UPDLOCK, READPAST)"),
        (row_locks.lock_by_id, "WITH (ROWLOCK, UPDLOCK)"),
    ],
)
def test_sql_server_locks_emails_by_a_hint(tables: Tables, lock: Any, hint: str) -> None:
    asked: list[Any] = []

    class Nothing(list[Any]):
        scalars = list.copy

    def execute(statement: Any) -> Nothing:
        asked.append(statement)
        return Nothing()

    connection: Any = SimpleNamespace(execute=execute)
    lock(connection, SimpleNamespace(tables=tables), tables.email.c.id == 1)
    assert f"FROM outbox_email {hint} WHERE" in sql(asked[0], "mssql")


def test_each_lock_has_a_hint_for_sql_server() -> None:
    """A `with_for_update` elsewhere would lock nothing there."""
    store = Path(outbox.__file__).parent / "store"
    texts = {str(path.relative_to(store)): path.read_text("utf-8") for path in store.rglob("*.py")}
    # An enqueue locks so only where a plain read sees an old snapshot.
    assert {name for name, text in texts.items() if ".with_for_update(" in text} == {
        "connection/row_locks.py",
        "transitions/enqueue.py",
    }


@pytest.mark.parametrize("name", ["mysql", "mariadb", "mssql"])
def test_the_guarded_claim_needs_no_returning(tables: Tables, name: str) -> None:
    text = sql(guarded_statement(tables, [1, 2], TOKEN), name)
    assert text.startswith("UPDATE outbox_email SET")
    assert re.search(r"outbox_email\.status = ", text.partition("WHERE")[2])
    assert "RETURNING" not in text
    assert "OUTPUT" not in text


@every_dialect
def test_an_email_can_be_written_and_the_clock_read_on_every_dialect(
    tables: Tables, name: str
) -> None:
    text = sql(
        insert(tables.email).values(created_at=clock(), due_at=clock(lambda: 5.0), content_id=1),
        name,
    )
    assert "INSERT INTO outbox_email" in text
    assert text.count(_CLOCKS[name]) == 2


_CLOCKS = {
    "postgresql": "clock_timestamp()",
    "sqlite": "strftime(",
    "mysql": "utc_timestamp(6)",
    "mariadb": "utc_timestamp(6)",
    "mssql": "sysdatetimeoffset()",
}


@every_dialect
def test_the_tables_and_indexes_can_be_made_on_every_dialect(tables: Tables, name: str) -> None:
    made = [sql(CreateTable(table), name) for table in tables.email.metadata.sorted_tables]
    assert len(made) == len(fields(Tables))
    indexes = {str(i.name): sql(CreateIndex(i), name) for i in tables.email.indexes}
    partial = name in ("postgresql", "sqlite", "mssql")
    assert ("WHERE due_at IS NOT NULL" in indexes["ix_outbox_email_due"]) is partial
    assert "CREATE UNIQUE INDEX" in indexes["uq_outbox_email_key"]


@pytest.mark.parametrize("name", ["mysql", "mariadb"])
def test_times_on_mysql_keep_their_microseconds_and_contents_their_size(
    tables: Tables, name: str
) -> None:
    assert "due_at DATETIME(6)" in sql(CreateTable(tables.email), name)
    assert "LONGBLOB" in sql(CreateTable(tables.content), name)
    assert "ENGINE=InnoDB" in sql(CreateTable(tables.email), name)


def test_no_index_of_the_hot_table_names_the_status(tables: Tables) -> None:
    """So that opening a window stays a HOT update on PostgreSQL."""
    for index in tables.email.indexes:
        assert not re.search(r"\bstatus\b", sql(CreateIndex(index), "postgresql"))


@pytest.mark.parametrize(
    ("is_mariadb", "knows_for_share", "ending"),
    [
        (True, False, "LOCK IN SHARE MODE SKIP LOCKED"),
        (False, False, "FOR SHARE SKIP LOCKED"),
        (False, True, "FOR SHARE SKIP LOCKED"),
    ],
    ids=["MariaDB", "MySQL", "MySQL, SQLAlchemy 2.1"],
)
def test_rows_are_kept_in_words_that_the_server_knows(
    tables: Tables, is_mariadb: bool, knows_for_share: bool, ending: str
) -> None:
    """As each server answers when it is first connected to. No MySQL can be had here."""
    dialect: Any = (mariadb.MariaDBDialect if is_mariadb else mysql.dialect)()
    told = {"is_mariadb": is_mariadb, **({"use_mysql_for_share": True} if knows_for_share else {})}
    connection: Any = SimpleNamespace(dialect=SimpleNamespace(**told))
    if knows_for_share:
        if not hasattr(dialect, "use_mysql_for_share"):
            pytest.skip("this is an older SQLAlchemy")
        dialect.use_mysql_for_share = True
    statement = kept(connection, select(tables.email.c.id).limit(1))
    text = re.sub(r"\s+", " ", str(statement.compile(dialect=dialect))).rstrip()
    assert re.search(rf"LIMIT %s {ending}$", text)


ASKED = {
    "backend.py": "chooses the ways",
    "connection/facts.py": "has the facts",
    "connection/row_locks.py": "hints that SQLAlchemy gives to one dialect",
    "postgresql/claim.py": "a prefix that SQLAlchemy gives to one dialect",
    "schema/clock.py": "SQLAlchemy compiles the clock for each dialect",
    "schema/column_types.py": "types and options by dialect",
}
"""The files of the store in which a dialect's name stands."""


@pytest.mark.over_and_over
def test_no_other_file_asks_for_a_dialects_name() -> None:
    package = Path(outbox.__file__).parent
    texts = {path: path.read_text("utf-8") for path in package.rglob("*.py")}
    naming = {
        str(path.relative_to(package))
        for path, text in texts.items()
        if any(name in text for name in DIALECTS)  # only these are parsed: it takes long
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in DIALECTS
    }
    assert naming == {f"store/{name}" for name in ASKED}
