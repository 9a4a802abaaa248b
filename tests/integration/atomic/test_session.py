"""Which session an email is written in: one that somebody commits, on the outbox's own database."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from outbox import ConfigurationError, Outbox
from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.each_database

MAKERS: dict[str, Callable[[sa.Engine], Any]] = {
    "sessionmaker": sessionmaker,
    "Session": lambda engine: Session,
}


@contextmanager
def engine_on(url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("maker", MAKERS)
def test_init_app_refuses_a_source_of_new_sessions(shop: Shop, maker: str) -> None:
    """Nobody would ever commit what `enqueue` writes in them."""
    source = MAKERS[maker](shop.engine)
    with pytest.raises(ConfigurationError, match="scoped_session"):
        Outbox().init_app(Flask("shop"), session=source, metadata=sa.MetaData(), engine=shop.engine)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("maker", MAKERS)
def test_a_maker_of_sessions_is_no_session(shop: Shop, maker: str) -> None:
    with pytest.raises(ConfigurationError, match="session="):
        shop.outbox.enqueue(message(), session=MAKERS[maker](shop.engine))
    assert shop.count(shop.tables.email) == 0


def opened(engine: sa.Engine, source: Any) -> Outbox:
    outbox = Outbox()
    outbox.init_app(Flask("shop"), session=source, metadata=sa.MetaData(), engine=engine)
    return outbox


@pytest.mark.databases("sqlite")
def test_a_source_that_makes_a_session_each_time_is_found_out_at_the_first_enqueue(
    shop: Shop,
) -> None:
    outbox = opened(shop.engine, lambda: Session(shop.engine))
    with pytest.raises(ConfigurationError, match="another session each time"):
        outbox.enqueue(message())
    assert shop.count(shop.tables.email) == 0


@pytest.mark.databases("sqlite")
def test_a_source_may_return_a_scoped_session(shop: Shop) -> None:
    sessions = scoped_session(sessionmaker(shop.engine))
    opened(shop.engine, lambda: sessions).enqueue(message())
    sessions.commit()
    sessions.remove()
    assert shop.count(shop.tables.email) == 1


def test_a_session_on_another_database_is_refused(shop: Shop, elsewhere: str) -> None:
    """No worker would look there, though it has the tables."""
    with engine_on(elsewhere) as engine:
        with Session(engine) as session:
            with pytest.raises(ConfigurationError, match="another database"):
                shop.outbox.enqueue(message(), session=session)
            with pytest.raises(ConfigurationError, match="another database"):
                shop.outbox.cancel(id=1, session=session)
            session.execute(sa.insert(shop.orders).values(customer="Ada"))
            session.commit()
        with engine.connect() as connection:
            counted = sa.select(sa.func.count()).select_from(shop.tables.email)
            assert connection.execute(counted).scalar_one() == 0


def statements_of_each_enqueue(shop: Shop, engine: sa.Engine) -> list[int]:
    """Count the statements of three enqueues over this engine, one after the other."""
    statements: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    counts = []
    for _ in range(3):
        statements.clear()
        with Session(engine) as session:
            shop.outbox.enqueue(message(), session=session)
            session.commit()
        counts.append(len(statements))
    assert shop.count(shop.tables.email) == 3
    return counts


def test_another_engine_on_the_same_database_is_asked_once_and_taken(shop: Shop) -> None:
    with engine_on(shop.engine.url.render_as_string(hide_password=False)) as engine:
        first, second, third = statements_of_each_enqueue(shop, engine)
    assert second == third < first


def test_an_engine_with_options_of_its_own_is_not_asked_at_all(shop: Shop) -> None:
    engine = shop.engine.execution_options(logging_token="requests")
    first, second, third = statements_of_each_enqueue(shop, engine)
    assert first == second == third


def test_a_session_that_routes_writes_is_asked_for_the_writer(shop: Shop, elsewhere: str) -> None:
    """SQLAlchemy's own recipe: the writer for INSERT, UPDATE and DELETE, else a reader."""
    with engine_on(elsewhere) as reader:

        class Routing(Session):
            def get_bind(self, mapper: Any = None, *, clause: Any = None, **_: Any) -> sa.Engine:
                return shop.engine if isinstance(clause, sa.UpdateBase) else reader

        with Routing() as session:
            shop.order(session)
            email = shop.outbox.enqueue(message(), session=session)
            session.commit()
    assert shop.count(shop.orders) == 1
    assert [row.id for row in shop.rows(shop.tables.email)] == [email.id]


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_the_hundredth_savepoint_of_a_transaction_costs_no_more_than_the_tenth(shop: Shop) -> None:
    made = list[int]()
    with Session(shop.engine) as session:
        for number in range(100):
            with calls() as counted, session.begin_nested():
                shop.order(session, f"customer {number}")
                shop.outbox.enqueue(message(), session=session)
            made.append(counted[0])
        session.commit()
    assert shop.count(shop.tables.email) == 100
    assert min(made[-10:]) < min(made[10:20]) + 50, made


@contextmanager
def calls() -> Iterator[list[int]]:
    """Count the calls of Python functions within the block."""
    counted = [0]

    def count(_frame: object, event: str, _argument: object) -> None:
        counted[0] += event == "call"

    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(None)
