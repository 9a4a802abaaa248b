"""Test suites as other people write them: their fixtures, sessions and apps are not ours."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask, request
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from outbox import ConfigurationError, Outbox
from outbox.testing import OutboxTester
from tests.support.shop.shop import Shop, Shops, message

pytestmark = pytest.mark.databases("sqlite", "postgresql")


def with_view(shop: Shop, db: SQLAlchemy) -> Flask:
    """Return the shop's app with a view that enqueues and commits."""

    @shop.app.post("/orders")
    def place_order() -> str:
        shop.outbox.enqueue(message("ada@x.example"))
        db.session.commit()
        return "ok"

    @shop.app.post("/later")
    async def place_later() -> str:
        shop.outbox.enqueue(message("later@x.example"))
        db.session.commit()
        return "ok"

    return shop.app


@contextmanager
def engines_replaced(app: Flask, db: SQLAlchemy) -> Iterator[None]:
    """Bind all sessions of the app to one connection, and take back what they commit."""
    with app.app_context():
        engines: Any = db.engines
    (engine,) = engines.values()
    with engine.connect() as connection, connection.begin() as transaction:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN")
        engines[None] = connection
        try:
            yield
        finally:
            engines[None] = engine
            transaction.rollback()


def test_an_app_whose_engine_is_a_connection_that_is_rolled_back(shops: Shops) -> None:
    shop, db = shops.open_flask(TESTING=True)
    app = with_view(shop, db)
    for _ in range(2):
        with engines_replaced(app, db), OutboxTester(app) as tester:
            app.test_client().post("/orders")
            assert tester.assert_enqueued().to == ("ada@x.example",)
            with app.app_context():
                assert tester.assert_enqueued().status == "pending"
                with pytest.raises(ConfigurationError, match="a fixture of this test takes back"):
                    tester.drain()
        assert shop.statuses() == []


@pytest.mark.parametrize(("mode", "seen"), [("conditional_savepoint", 1), ("create_savepoint", 0)])
def test_a_forgotten_commit_is_seen_where_each_session_has_a_savepoint(
    shops: Shops, mode: str, seen: int
) -> None:
    shop, db = shops.open_flask(TESTING=True)
    app = with_view(shop, db)
    db.session.session_factory.configure(join_transaction_mode=mode)

    @app.post("/forgotten")
    def forget() -> str:
        shop.outbox.enqueue(message("ada@x.example"))
        return "ok"

    with engines_replaced(app, db), OutboxTester(app) as tester:
        app.test_client().post("/forgotten")
        assert len(tester.emails()) == seen
        app.test_client().post("/orders")
        assert len(tester.emails()) == seen + 1
    assert shop.statuses() == []


def test_a_session_that_is_put_in_the_place_of_flask_sqlalchemys(shops: Shops) -> None:
    shop, db = shops.open_flask(TESTING=True)
    app, own = with_view(shop, db), db.session
    with shop.engine.connect() as connection, connection.begin() as transaction:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN")
        maker: Any = sessionmaker(connection, join_transaction_mode="create_savepoint")
        db.session = scoped_session(maker)
        with OutboxTester(app) as tester:
            app.test_client().post("/orders")
            assert tester.assert_enqueued().to == ("ada@x.example",)
            with db.session.begin_nested():
                shop.outbox.enqueue(message("nested@x.example"))
                assert len(tester.emails()) == 2
            db.session.rollback()
            assert len(tester.emails()) == 1
            with pytest.raises(ConfigurationError, match="a fixture of this test takes back"):
                tester.drain()
        db.session.remove()
        transaction.rollback()
    db.session = own
    assert shop.statuses() == []


def test_tables_that_are_emptied_after_the_fixture_was_made(shops: Shops) -> None:
    shop = shops.open(TESTING=True)
    for _ in range(3):
        shop.enqueue("before@x.example")
    with OutboxTester(shop.app) as tester:
        with shop.engine.begin() as connection:
            shop.tables.email.metadata.drop_all(connection)
            shop.tables.email.metadata.create_all(connection)
        tester.assert_nothing_enqueued()
        shop.enqueue("after@x.example")
        assert tester.assert_enqueued().to == ("after@x.example",)


@pytest.mark.long
def test_an_app_for_the_whole_session_and_an_app_for_each_test(shops: Shops) -> None:
    shop, db = shops.open_flask(TESTING=True)
    app = with_view(shop, db)
    for _ in range(2):  # two tests of one app
        with OutboxTester(app) as tester:
            app.test_client().post("/orders")
            tester.assert_enqueued()
            assert len(tester.drain()) == 1
    assert shop.statuses() == ["sent", "sent"]


@pytest.mark.long
def test_a_factory_that_makes_several_apps_of_one_outbox(shops: Shops, tmp_path: Any) -> None:
    db, outbox = SQLAlchemy(), Outbox()

    def create_app(name: str) -> Flask:
        app = Flask(name)
        url = f"sqlite:///{tmp_path}/{name}.db"
        app.config.update(TESTING=True, SQLALCHEMY_DATABASE_URI=url)
        db.init_app(app)
        outbox.init_app(app, db=db)
        with app.app_context():
            db.create_all()
        return app

    one, other = create_app("one"), create_app("other")
    with OutboxTester(one) as ours, OutboxTester(other) as theirs, one.app_context():
        outbox.enqueue(message("one@x.example"))
        with other.app_context():
            outbox.enqueue(message("other@x.example"))
            assert theirs.assert_enqueued().to == ("other@x.example",)
            ours.assert_nothing_enqueued()  # its session belongs to another context
            db.session.commit()
        assert ours.assert_enqueued().to == ("one@x.example",)
        assert theirs.assert_enqueued().to == ("other@x.example",)
        db.session.commit()
        assert [len(tester.drain()) for tester in (ours, theirs)] == [1, 1]
        for app in (one, other):
            with app.app_context():
                db.engine.dispose()


def test_a_view_that_is_a_coroutine(shops: Shops) -> None:
    shop, db = shops.open_flask(TESTING=True)
    app = with_view(shop, db)
    with app.app_context(), OutboxTester(app) as tester:
        app.test_client().post("/later")
        assert tester.assert_enqueued(to="later@x.example").status == "pending"
        assert len(tester.drain()) == 1


def test_a_client_whose_context_is_kept(shops: Shops) -> None:
    shop, db = shops.open_flask(TESTING=True)
    app = with_view(shop, db)
    with OutboxTester(app) as tester, app.test_client() as client:
        client.post("/orders")
        tester.assert_enqueued()
        assert len(tester.drain()) == 1


def test_a_unittest_case(shops: Shops) -> None:
    shop = shops.open(TESTING=True)

    class OrderTest(unittest.TestCase):
        def setUp(self) -> None:
            self.outbox = self.enterContext(OutboxTester(shop.app))

        def test_order(self) -> None:
            shop.enqueue("ada@x.example")
            self.outbox.assert_enqueued(to="ada@x.example")

        def test_nothing(self) -> None:
            self.outbox.assert_nothing_enqueued()
            with pytest.raises(AssertionError, match="no email was enqueued"):
                self.outbox.assert_enqueued()

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(OrderTest).run(result)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])


def test_a_session_that_needs_a_request_to_find_its_engine(shops: Shops) -> None:
    shop = shops.open(TESTING=True)

    class Routing(Session):
        def get_bind(self, *_: Any, **__: Any) -> sa.Engine:
            return {"/orders": shop.engine}[request.path]

    state = shop.app.extensions["outbox"]
    maker: Any = sessionmaker(class_=Routing)
    state.find_source = lambda: scoped_session(maker)
    with OutboxTester(shop.app) as tester:
        shop.enqueue("ada@x.example")
        assert tester.assert_enqueued().to == ("ada@x.example",)


def test_a_session_of_the_tests_own(shops: Shops) -> None:
    shop = shops.open(TESTING=True)
    with OutboxTester(shop.app) as tester, Session(shop.engine) as session:
        shop.outbox.enqueue(message("own@x.example"), session=session)
        tester.assert_nothing_enqueued()  # it is not the app's session
        assert tester.assert_enqueued(session=session).to == ("own@x.example",)
        session.execute(sa.select(1))
        session.rollback()
        tester.assert_nothing_enqueued(session=session)
