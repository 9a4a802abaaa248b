"""Where somebody holds SQLite's write lock, a transaction of ours waits some time, and fails."""

from __future__ import annotations

import sqlite3

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from outbox import ConfigurationError
from outbox.store.connection.database import TRIES, Database
from outbox.store.connection.sqlite.write_lock import lock_tries
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("sqlite")

EXTRA = 3
"""The number that SQLite has for it."""


@pytest.mark.parametrize(("patience", "tries"), [(0.05, 8), (1.0, 8), (5.0, 3), (10.0, 2), (60, 1)])
def test_it_waits_some_seconds_whatever_its_patience(patience: float, tries: int) -> None:
    assert lock_tries(patience, TRIES) == tries


def test_it_asks_for_the_lock_once_in_each_try(shop: Shop) -> None:
    tried: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        tried.append(statement)

    database = Database(shop.engine, shop.tables, patience=0.05)
    sa.event.listen(shop.engine, "before_cursor_execute", note)
    with shop.engine.connect() as other:
        other.exec_driver_sql("BEGIN IMMEDIATE")
        tried.clear()
        with pytest.raises(OperationalError, match="locked"):
            database.run(lambda connection: None)
        other.exec_driver_sql("ROLLBACK")
    assert tried.count("BEGIN IMMEDIATE") == lock_tries(database.patience, TRIES)
    after = tried[tried.index("BEGIN IMMEDIATE") :]
    assert "PRAGMA busy_timeout = 50" in after, "the connection waits for its next user"


@pytest.mark.parametrize("of_the_app", ["OFF", "NORMAL", "FULL", "EXTRA"])
def test_a_commit_of_ours_is_on_the_disk_whatever_the_app_has_set(
    shop: Shop, of_the_app: str
) -> None:
    """With FULL a power loss may bring back the journal that was removed, and undo the commit."""

    def set_it(driver: sqlite3.Connection, _record: object) -> None:
        driver.execute(f"PRAGMA synchronous = {of_the_app}")

    sa.event.listen(shop.engine, "connect", set_it)
    shop.engine.dispose()
    with shop.database.transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == EXTRA


@pytest.mark.parametrize("verb", ["pause", "suppress"])
def test_a_verb_is_refused_while_any_session_of_its_thread_has_written(
    shop: Shop, verb: str
) -> None:
    write = {"pause": shop.outbox.pause, "suppress": lambda: shop.outbox.suppress("a@x.example")}
    with shop.app.app_context(), Session(shop.engine) as session:
        shop.order(session)
        with pytest.raises(ConfigurationError, match="a session of this thread has written"):
            write[verb]()
        session.commit()
        assert write[verb]()
        session.execute(sa.select(shop.orders))
        write[verb]()  # a session that only reads keeps nobody out


def test_a_session_on_another_database_keeps_nobody_out(shop: Shop, shops: Shops) -> None:
    other = sa.create_engine("sqlite://")
    with shop.app.app_context(), Session(other) as session:
        session.execute(sa.text("CREATE TABLE notes (id INTEGER)"))
        session.execute(sa.text("INSERT INTO notes VALUES (1)"))
        assert shop.outbox.pause()
    other.dispose()
