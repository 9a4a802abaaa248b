"""The outbox is used for the first time while another thread is within the engine's listeners."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine, event
from sqlalchemy.orm import Session

from outbox import Status
from outbox.flask_ext.session.reading import holds_nothing, writers
from tests.support.shop.shop import Shops, message

pytestmark = pytest.mark.each_database

LONG = 30.0
"""Seconds after which a test has failed."""


def _connect(engine: Engine) -> None:
    with engine.connect(), engine.connect():
        pass


def _execute(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execute(sa.select(1))


def _set_savepoint(engine: Engine) -> None:
    with engine.connect() as connection, connection.begin_nested():
        connection.execute(sa.select(1))


def _ignore(*_: object) -> None:
    pass


@contextmanager
def within(engine: Engine, name: str, use: Callable[[Engine], None]) -> Iterator[None]:
    """Have another thread stand within an app's listener of this event while the block runs."""
    entered, done = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        ours = pool.submit(threading.get_ident).result()

        def listener(*_: object) -> None:
            if threading.get_ident() == ours and not entered.is_set():
                entered.set()
                assert done.wait(LONG)

        event.listen(engine, name, listener)
        used = pool.submit(use, engine)
        try:
            assert entered.wait(LONG)
            yield
        finally:
            done.set()
        used.result()


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("connect", _connect),
        ("before_cursor_execute", _execute),
        ("after_cursor_execute", _execute),
        ("savepoint", _set_savepoint),
    ],
)
def test_the_first_email_fails_nobody_who_uses_the_engine(
    name: str, use: Callable[[Engine], None], shops: Shops
) -> None:
    engine = sa.create_engine(shops.url)
    shop = shops.open_on(engine)
    if name == "before_cursor_execute":  # then the outbox needs this event, too
        event.listen(engine.dialect, "do_execute", _ignore)
    with within(engine, name, use), shop.session() as session:
        with session.begin_nested():
            shop.order(session)
        shop.outbox.enqueue(message(), session=session)
        session.commit()
    assert shop.statuses() == [Status.PENDING]


def test_where_the_app_listens_too_its_sessions_are_heard_as_elsewhere(shops: Shops) -> None:
    engine = sa.create_engine(shops.url)
    shop = shops.open_on(engine)
    event.listen(engine.dialect, "do_execute", _ignore)
    for name in ("before_cursor_execute", "after_cursor_execute", "savepoint"):
        event.listen(engine, name, _ignore)
    for _ in range(2):
        with shop.session() as session:
            session.execute(sa.select(1))
            assert (holds_nothing(session), writers(session)) == (True, set())
            with session.begin_nested():
                shop.order(session)
            assert (holds_nothing(session), len(writers(session))) == (False, 1)
            session.rollback()
    assert shop.count(shop.orders) == 0


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_an_engine_to_which_the_app_listens_is_not_kept(shops: Shops) -> None:
    shops.open()
    engine = sa.create_engine("sqlite://")
    event.listen(engine, "after_cursor_execute", _ignore)
    with Session(engine) as session:
        session.execute(sa.select(1))
    engine.dispose()
    kept = weakref.ref(engine)
    del engine, session
    gc.collect()
    assert kept() is None
