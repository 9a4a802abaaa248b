"""An email of another extension commits by itself where its session has surely only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import flask_mail
import pytest
import sqlalchemy as sa
from flask import current_app
from flask_sqlalchemy import SQLAlchemy
from pymysql.constants import CLIENT
from sqlalchemy.orm import Session

from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.one_database("postgresql")

Write = Callable[[SQLAlchemy], None]

INSERT = "INSERT INTO orders (customer) VALUES ('Ada')"

SCHEMA: dict[str, tuple[str, ...]] = {
    "sqlite": (),
    "postgresql": (
        f"CREATE FUNCTION place() RETURNS int LANGUAGE sql AS $$ {INSERT} RETURNING 1 $$",
        "CREATE FUNCTION lock() RETURNS int LANGUAGE sql AS"
        " $$ SELECT 1 FROM (SELECT * FROM orders FOR UPDATE) AS held $$",
        "CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS $$ SELECT 2 * n $$",
        "CREATE VIEW placed AS SELECT place() AS n",
    ),
    "mariadb": (f"CREATE FUNCTION place() RETURNS int BEGIN {INSERT}; RETURN 1; END",),
}


@pytest.fixture
def opened(shops: Shops) -> Iterator[tuple[Shop, SQLAlchemy]]:
    """A shop with some orders, and functions in its database; its context is current."""
    shop, db = shops.open_flask(MAIL_DEFAULT_SENDER="shop@shop.example")
    with shop.engine.begin() as connection:
        for statement in SCHEMA[shop.engine.dialect.name]:
            connection.execute(sa.text(statement))
        rows = [{"customer": f"c{number:02}"} for number in range(20)]
        connection.execute(sa.insert(shop.orders), rows)
    with shop.app.app_context():
        yield shop, db
        db.session.remove()


def send() -> None:
    """Send as other extensions do."""
    mail = flask_mail.Message("Hello", recipients=["ada@x.example"], body="Thanks.")
    current_app.extensions["mail"].send(mail)


def texts(*statements: str) -> Write:
    def run(db: SQLAlchemy) -> None:
        for statement in statements:
            db.session.execute(sa.text(statement))

    return run


def raw(*statements: str) -> Write:
    """Over a cursor of the driver, of which SQLAlchemy does not know."""

    def run(db: SQLAlchemy) -> None:
        with closing(db.session.connection().connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)

    return run


def both(first: Write, second: Write) -> Write:
    def run(db: SQLAlchemy) -> None:
        first(db)
        second(db)

    return run


def function(db: SQLAlchemy) -> None:
    db.session.execute(sa.select(sa.func.place())).all()


def registered(db: SQLAlchemy) -> None:
    """Call a function of Python's that writes over another cursor of the connection."""
    connection = db.session.connection()
    driver: Any = connection.connection.driver_connection
    driver.create_function("place", 0, lambda: int(bool(driver.execute(INSERT))))
    connection.execute(sa.text("SELECT place()"))


def stream(db: SQLAlchemy) -> None:
    """Read a streamed result to its end."""
    statement = sa.text("SELECT * FROM orders").execution_options(yield_per=3)
    assert len(list(db.session.execute(statement))) == 20


def behind_a_savepoint(db: SQLAlchemy) -> None:
    with db.session.begin_nested():
        raw(INSERT)(db)


def _execute(cursor: Any, statement: str, parameters: Any, _: Any) -> bool:
    """A listener of the app's own: behind one that returns True, SQLAlchemy asks no other."""
    cursor.execute(statement, parameters)
    return True


def executed_by_another(db: SQLAlchemy) -> None:
    if not sa.event.contains(db.engine, "do_execute", _execute):
        sa.event.listen(db.engine, "do_execute", _execute)
    texts("SELECT pg_notify('orders', '1')")(db)


WRITES: dict[str, dict[str, Write]] = {
    "sqlite": {
        "raw": raw(INSERT),
        "raw, begun": raw("BEGIN", INSERT),
        "raw lock": raw("BEGIN IMMEDIATE"),
        "raw lock before a read": both(raw("BEGIN IMMEDIATE"), stream),
        "function": registered,
        "raw behind a savepoint": behind_a_savepoint,
    },
    "postgresql": {
        "raw": raw(INSERT),
        "raw behind a savepoint": behind_a_savepoint,
        "function": function,
        "function in a text": texts("SELECT place()"),
        "function of a view": texts("SELECT * FROM placed"),
        "function that locks": texts("SELECT lock()"),
        "second statement": texts(f"SELECT 1; {INSERT}"),
        "behind TABLE": texts(f"TABLE orders; {INSERT}"),
        "raw lock": raw("LOCK TABLE orders IN SHARE MODE"),
        "advisory lock": texts("SELECT pg_advisory_xact_lock(42)"),
        "shared advisory lock": texts("SELECT pg_advisory_xact_lock_shared(42)"),
        "notification": texts("SELECT pg_notify('orders', '1')"),
        "notification by another": executed_by_another,
        "setting": texts("SELECT set_config('app.tenant', '1', true)"),
        "cursor": raw("DECLARE held CURSOR FOR SELECT * FROM orders"),
    },
    "mariadb": {
        "raw": raw(INSERT),
        "raw before a read": both(raw(INSERT), texts("SELECT 1")),
        "raw behind a savepoint": behind_a_savepoint,
        "function": function,
        "function in a text": texts("SELECT place()"),
        "function of a schema": texts("SELECT `place` ()"),
        "function behind a comment": texts("SELECT place/* */ ()"),
        "function in a comment": texts("SELECT 1 /*! + place() */"),
        "comment that is executed": texts("/*! INSERT INTO orders (customer) */ SELECT 'Ada'"),
    },
}

READS: dict[str, dict[str, Write]] = {
    "sqlite": {"raw": raw("SELECT 1"), "savepoint": texts("SAVEPOINT a", "RELEASE SAVEPOINT a")},
    "postgresql": {
        "raw": raw("SELECT 1"),
        "function": texts("SELECT twice(2)"),
        "repeatable": lambda db: _read_in(db, "REPEATABLE READ"),
        "serializable": lambda db: _read_in(db, "SERIALIZABLE"),
    },
    "mariadb": {
        "functions": texts("SELECT COUNT(*), COALESCE(MAX(id), 0) FROM orders WHERE id IN (1, 2)"),
        "repeatable": lambda db: _read_in(db, "REPEATABLE READ"),
    },
}
for reads in READS.values():
    reads["nothing"] = lambda db: None
    reads["stream"] = stream
    reads["text"] = texts("SELECT * FROM orders")
    reads["count"] = texts("SELECT count(*) FROM orders")


def _read_in(db: SQLAlchemy, level: str) -> None:
    db.session.connection(execution_options={"isolation_level": level})
    texts("SELECT * FROM orders")(db)


def cases(kinds: dict[str, dict[str, Write]], database: str) -> Any:
    def mark(test: Any) -> Any:
        test = pytest.mark.parametrize("kind", kinds[database])(test)
        return pytest.mark.databases(database)(test)

    return mark


def waits(opened: tuple[Shop, SQLAlchemy], write: Write) -> None:
    """Hold that the email does not commit what was written, and stands with it."""
    shop, db = opened
    before = shop.count(shop.orders)
    write(db)
    send()
    assert db.session().in_transaction()
    db.session.rollback()
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (before, 0)
    write(db)
    send()
    db.session.commit()
    assert shop.count(shop.tables.email) == 1


def goes(opened: tuple[Shop, SQLAlchemy], read: Write) -> None:
    """Hold that the email is committed at once."""
    shop, db = opened
    read(db)
    send()
    db.session.rollback()
    assert shop.count(shop.tables.email) == 1


@cases(WRITES, "sqlite")
def test_on_sqlite_a_write_that_no_word_tells_is_seen(
    opened: tuple[Shop, SQLAlchemy], kind: str
) -> None:
    waits(opened, WRITES["sqlite"][kind])


@cases(WRITES, "postgresql")
def test_on_postgresql_a_write_that_no_word_tells_is_seen(
    opened: tuple[Shop, SQLAlchemy], kind: str
) -> None:
    waits(opened, WRITES["postgresql"][kind])


@pytest.mark.usual_driver
@cases(WRITES, "mariadb")
def test_on_mariadb_a_write_that_no_word_tells_is_seen(
    opened: tuple[Shop, SQLAlchemy], kind: str
) -> None:
    waits(opened, WRITES["mariadb"][kind])


@cases(READS, "sqlite")
def test_on_sqlite_a_read_is_one(opened: tuple[Shop, SQLAlchemy], kind: str) -> None:
    goes(opened, READS["sqlite"][kind])


@cases(READS, "postgresql")
def test_on_postgresql_a_read_is_one(opened: tuple[Shop, SQLAlchemy], kind: str) -> None:
    goes(opened, READS["postgresql"][kind])


@cases(READS, "mariadb")
def test_on_mariadb_a_read_is_one(opened: tuple[Shop, SQLAlchemy], kind: str) -> None:
    goes(opened, READS["mariadb"][kind])


@pytest.mark.databases("mariadb")
def test_a_second_statement_in_a_text_is_seen_where_the_driver_takes_one(shops: Shops) -> None:
    shop, db = shops.open_flask(
        MAIL_DEFAULT_SENDER="shop@shop.example",
        SQLALCHEMY_ENGINE_OPTIONS={"connect_args": {"client_flag": CLIENT.MULTI_STATEMENTS}},
    )
    with shop.app.app_context():
        waits((shop, db), texts("SELECT 1; INSERT INTO orders SELECT 7, 'Ada'"))


@pytest.mark.databases("postgresql", "sqlite")
def test_an_email_for_each_row_of_a_stream_leaves_the_stream_open(
    opened: tuple[Shop, SQLAlchemy],
) -> None:
    shop, db = opened
    rows = db.session.execute(sa.select(shop.orders).execution_options(yield_per=3))
    seen = 0
    for _ in rows:
        seen += 1
        send()
    db.session.commit()
    assert (seen, shop.count(shop.tables.email)) == (20, 20)


def test_within_a_savepoint_of_the_caller_an_email_waits_for_its_end(
    opened: tuple[Shop, SQLAlchemy],
) -> None:
    shop, db = opened
    db.session.execute(sa.select(shop.orders)).all()
    with db.session.begin_nested():
        send()
    db.session.rollback()
    assert shop.count(shop.tables.email) == 0


def test_what_others_wrote_over_the_sessions_connection_is_theirs_to_commit(
    opened: tuple[Shop, SQLAlchemy], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, _ = opened
    state = current_app.extensions["outbox"]
    with shop.engine.connect() as connection:
        connection.execute(sa.text(INSERT))
        with Session(connection, join_transaction_mode="control_fully") as session:
            monkeypatch.setattr(state, "find_source", lambda: lambda: session)
            session.execute(sa.select(shop.orders)).all()
            send()
        connection.rollback()
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (20, 0)
