"""No call ends the caller's transaction by an app context of its own, the first in a process too.

Flask-SQLAlchemy removes the session at the end of each app context. Where the session belongs to
the thread, that is the caller's, whoever pushed the context.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Table, func, insert, select

from outbox import Outbox
from outbox.flask_ext.app.state import state_of
from tests.support.shop import schema
from tests.support.shop.shop import message, newsletter

pytestmark = pytest.mark.each_database


@dataclass(kw_only=True)
class ThreadsShop:
    """A shop whose session belongs to the thread, and of whose outbox nothing was used yet."""

    app: Flask
    db: SQLAlchemy
    outbox: Outbox
    orders: Table

    def committed(self) -> tuple[int, int]:
        """Return how many orders and emails there are."""
        tables = (self.orders, state_of(self.app).runtime.tables.email)
        with self.app.app_context(), self.db.engine.connect() as connection:
            orders, emails = (
                connection.execute(select(func.count()).select_from(table)).scalar_one()
                for table in tables
            )
            return orders, emails


@pytest.fixture
def shop(database_url: str) -> Iterator[ThreadsShop]:
    app, outbox = Flask("shop"), Outbox()
    app.config.update(SQLALCHEMY_DATABASE_URI=database_url)
    db = SQLAlchemy(session_options={"scopefunc": threading.get_ident})
    db.init_app(app)
    outbox.init_app(app, db=db)
    made = ThreadsShop(app=app, db=db, outbox=outbox, orders=schema.orders(db.metadata))
    with app.app_context():
        schema.create(db.metadata, db.engine)
    yield made
    with app.app_context():
        db.engine.dispose()


USES: dict[str, Callable[[Outbox], object]] = {
    "enqueue": lambda outbox: outbox.enqueue(message()),
    "enqueue_many": lambda outbox: outbox.enqueue_many(newsletter(), ["a@x.example"]),
    "cancel": lambda outbox: outbox.cancel(id=1),
    "counts": lambda outbox: outbox.counts(),
}


@pytest.mark.matrix
@pytest.mark.parametrize("use", USES)
def test_the_first_use_leaves_the_order_in_its_transaction(shop: ThreadsShop, use: str) -> None:
    """Given an order that is not committed, when the outbox is first used, it still commits."""
    with shop.app.app_context():
        session = shop.db.session()
        session.execute(insert(shop.orders).values(customer="Ada"))
        USES[use](shop.outbox)
        assert shop.db.session() is session
        shop.outbox.enqueue(message())
        session.commit()
    assert shop.committed() == (1, 2 if use.startswith("enqueue") else 1)


def test_forgetting_connections_after_a_fork_keeps_the_session(shop: ThreadsShop) -> None:
    with shop.app.app_context():
        session = shop.db.session()
        shop.outbox.enqueue(message())
        before = shop.db.engine.pool
        state_of(shop.app).runtime.after_fork()
        assert shop.db.engine.pool is not before
        assert shop.db.session() is session
        session.rollback()
        before.dispose()  # this process is no child: the connections are its own


def test_init_app_keeps_a_session_that_is_in_use(shop: ThreadsShop) -> None:
    with shop.app.app_context():
        session = shop.db.session()
        session.execute(insert(shop.orders).values(customer="Ada"))
        del shop.app.extensions["outbox"]  # an app has one outbox
        Outbox().init_app(shop.app, db=shop.db)
        assert shop.db.session() is session
        session.commit()
    assert shop.committed() == (1, 0)
