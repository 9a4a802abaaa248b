"""Where somebody holds SQLite's write lock, a transaction of ours waits once, and then fails."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from outbox import ConfigurationError
from outbox.store.connection.database import Database
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("sqlite")


def test_it_does_not_begin_its_patience_anew(shop: Shop) -> None:
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
    assert tried.count("BEGIN IMMEDIATE") == 1
    after = tried[tried.index("BEGIN IMMEDIATE") :]
    assert "PRAGMA busy_timeout = 50" in after, "the connection waits for its next user"


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
