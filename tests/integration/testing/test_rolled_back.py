"""A suite that binds its sessions to a connection and rolls it back leaves nothing in the database.

On SQLite the sessions' savepoints come first on that connection, before any statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Connection
from sqlalchemy.orm import scoped_session, sessionmaker

from outbox import Outbox
from outbox.testing import OutboxTester
from tests.support.shop.shop import message

pytestmark = pytest.mark.databases("sqlite")


class Suite:
    """An app as the page on tests shows it, in the first process that uses its engine."""

    def __init__(self, url: str, *, outbox_first: bool) -> None:
        self.app = Flask("shop")
        self.app.config.update(TESTING=True, SQLALCHEMY_DATABASE_URI=url)
        self.db = SQLAlchemy(session_options={"join_transaction_mode": "create_savepoint"})
        self.outbox, db = Outbox(), self.db
        self.order: Any = type(
            "Order", (db.Model,), {"id": sa.Column(sa.Integer, primary_key=True)}
        )
        if outbox_first:
            self.outbox.init_app(self.app, db=db)
        db.init_app(self.app)
        if not outbox_first:
            self.outbox.init_app(self.app, db=db)
        with self.app.app_context():
            self.engine = db.engine
            db.create_all()
        self.app.post("/orders")(self.place)

    def place(self) -> str:
        self.db.session.add(self.order())
        self.outbox.enqueue(message())
        self.db.session.commit()
        return ""

    @contextmanager
    def engines_replaced(self, connection: Connection) -> Iterator[None]:
        with self.app.app_context():
            engines: Any = self.db.engines
        engines[None] = connection
        yield
        engines[None] = self.engine

    @contextmanager
    def session_replaced(self, connection: Connection) -> Iterator[None]:
        own: Any = self.db.session
        maker: Any = sessionmaker(connection, join_transaction_mode="create_savepoint")
        self.db.session = scoped_session(maker)
        yield
        self.db.session.remove()
        self.db.session = own

    def counts(self) -> list[int]:
        """Return how many orders and emails are committed."""
        tables = (self.order.__table__, self.db.metadata.tables["outbox_email"])
        with self.engine.connect() as connection:
            return [
                connection.scalar(sa.select(sa.func.count()).select_from(one)) or 0
                for one in tables
            ]


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("way", [Suite.engines_replaced, Suite.session_replaced])
@pytest.mark.parametrize("outbox_first", [False, True])
def test_the_first_request_leaves_nothing_either(
    database_url: str, way: Callable[[Suite, Connection], Any], outbox_first: bool
) -> None:
    suite = Suite(database_url, outbox_first=outbox_first)
    for _ in range(2):
        with suite.engine.connect() as connection, connection.begin() as transaction:
            with way(suite, connection), OutboxTester(suite.app) as tester:
                assert suite.app.test_client().post("/orders").status_code == 200
                tester.assert_enqueued()
            transaction.rollback()
        assert suite.counts() == [0, 0]
    suite.engine.dispose()


def test_an_app_with_listeners_of_its_own_on_savepoints_keeps_them(database_url: str) -> None:
    """Then the outbox listens to the connection of each session, from its first use of it on."""
    suite = Suite(database_url, outbox_first=True)
    heard: list[str] = []
    sa.event.listen(suite.engine, "savepoint", lambda _connection, name: heard.append(name))
    with suite.app.app_context(), suite.db.session.begin_nested():
        suite.outbox.enqueue(message())
    assert heard != []
    assert suite.counts() == [0, 0]
    suite.engine.dispose()
