"""Sessions that people use, each as a function that runs one transaction in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool, QueuePool

from tests.integration.sessions.outcomes import Act, Broken, Outcome
from tests.support.shop.shop import Shop, Shops, message

ALL = ("sqlite", "postgresql", "mariadb")
LONG_ENOUGH = 30.0


@dataclass(frozen=True)
class Way:
    """One way to a session. `run` returns the shop whose tables are counted afterwards."""

    name: str
    run: Callable[[Shops, Outcome], Shop]
    databases: tuple[str, ...] = ALL
    says: bool = True  # the number of orders is what the outcome says: nobody else decides


def act_of(shop: Shop, **options: Any) -> Act:
    """Return what places an order in a session, with its email."""

    def act(session: Session) -> None:
        shop.order(session)
        shop.outbox.enqueue(message("a@x.example", "b@x.example"), session=session, **options)

    return act


def in_session(make: Callable[[sa.Engine], Any], **options: Any) -> Callable[..., Shop]:
    """Return a run in a session that `make` makes of an engine with these options."""

    def run(shops: Shops, outcome: Outcome) -> Shop:
        shop = shops.open_on(sa.create_engine(shops.url, **options))
        with suppress(Broken), make(shop.engine) as session:
            outcome.end(session, act_of(shop))
        return shop

    return run


def with_key(shops: Shops, outcome: Outcome) -> Shop:
    shop = shops.open()
    with suppress(Broken), Session(shop.engine) as session:
        outcome.end(session, act_of(shop, key="order-1"))
    return shop


def email_first(shops: Shops, outcome: Outcome) -> Shop:
    """The email is the first statement of its transaction."""
    shop = shops.open()

    def act(session: Session) -> None:
        shop.outbox.enqueue(message(), session=session, key="order-1")
        shop.order(session)

    with suppress(Broken), Session(shop.engine) as session:
        outcome.end(session, act)
    return shop


def many(shops: Shops, outcome: Outcome) -> Shop:
    shop = shops.open()

    def act(session: Session) -> None:
        shop.order(session)
        shop.outbox.enqueue_many([message()], session=session)

    with suppress(Broken), Session(shop.engine) as session:
        outcome.end(session, act)
    return shop


def scoped(shops: Shops, outcome: Outcome) -> Shop:
    shop = shops.open()
    source = scoped_session(sessionmaker(shop.engine))
    try:
        with suppress(Broken):
            outcome.end(source(), act_of(shop))
    finally:
        source.remove()
    return shop


def joined(mode: Any) -> Callable[[Shops, Outcome], Shop]:
    """Return a run in a session inside a transaction that somebody else commits at the end."""

    def run(shops: Shops, outcome: Outcome) -> Shop:
        shop = shops.open()
        with shop.engine.connect() as connection:
            outer = connection.begin()
            joining = Session(bind=connection, join_transaction_mode=mode)
            with suppress(Broken), joining as session:
                outcome.end(session, act_of(shop))
            if outer.is_active:
                outer.commit()
        return shop

    return run


def bound(shops: Shops, outcome: Outcome) -> Shop:
    """Each table has its own bind, to one engine."""
    shop = shops.open()
    binds: dict[Any, Any] = dict.fromkeys(shop.orders.metadata.sorted_tables, shop.engine)
    with suppress(Broken), Session(binds=binds) as session:
        outcome.end(session, act_of(shop))
    return shop


def begun_by_hand(shops: Shops, outcome: Outcome) -> Shop:
    shop = shops.open()
    with suppress(Broken), Session(shop.engine, autobegin=False) as session:
        session.begin()
        outcome.end(session, act_of(shop))
    return shop


def by_an_event(name: str) -> Callable[[Shops, Outcome], Shop]:
    """Return a run in which a listener enqueues when the session flushes or commits."""

    def run(shops: Shops, outcome: Outcome) -> Shop:
        shop = shops.open()
        order = type("Order", (), {})
        sa.orm.registry(metadata=shop.orders.metadata).map_imperatively(order, shop.orders)

        def enqueue(session: Session, *_: Any) -> None:
            if any(isinstance(new, order) for new in session.new):
                shop.outbox.enqueue(message(), session=session)

        def act(session: Session) -> None:
            session.add(order())
            if name != "before_commit":
                session.flush()

        with suppress(Broken), Session(shop.engine) as session:
            sa.event.listen(session, name, enqueue)
            outcome.end(session, act)
        return shop

    return run


_ASYNC = {"sqlite": ("aiosqlite",), "postgresql": ("psycopg", "asyncpg"), "mariadb": ("asyncmy",)}


def asynchronous(driver: str) -> Callable[[Shops, Outcome], Shop]:
    """Return a run in an AsyncSession over this driver; the worker's engine is another one."""

    def run(shops: Shops, outcome: Outcome) -> Shop:
        shop = shops.open()
        name = shop.engine.dialect.name
        url = sa.make_url(shops.url).set(drivername=f"{name}+{driver}")
        url = url.difference_update_query(["ssl_disabled"])  # PyMySQL's own

        async def transaction() -> None:
            made = create_async_engine(url, poolclass=NullPool)
            try:
                async with AsyncSession(made) as session:
                    with suppress(Broken):
                        await session.run_sync(outcome.end, act_of(shop))
            finally:
                await made.dispose()

        asyncio.run(asyncio.wait_for(transaction(), LONG_ENOUGH))
        return shop

    return run


def _level(level: str) -> Callable[..., Shop]:
    return in_session(Session, isolation_level=level)


WAYS = (
    Way("Session", in_session(Session)),
    Way("a key", with_key),
    Way("the email first", email_first),
    Way("enqueue_many", many),
    Way("scoped_session", scoped),
    Way("sessionmaker", in_session(lambda made: sessionmaker(made)())),
    Way("expire_on_commit=False", in_session(lambda e: Session(e, expire_on_commit=False))),
    Way("autobegin=False", begun_by_hand),
    Way("binds", bound),
    Way("two phases", in_session(lambda e: Session(e, twophase=True)), ("postgresql", "mariadb")),
    *(
        Way(f"joined, {mode}", joined(mode), says=False)
        for mode in ("conditional_savepoint", "rollback_only", "control_fully", "create_savepoint")
    ),
    *(
        Way(level, _level(level), ("postgresql", "mariadb"))
        for level in ("READ COMMITTED", "REPEATABLE READ")
    ),
    Way("SERIALIZABLE", _level("SERIALIZABLE")),
    Way("NullPool", in_session(Session, poolclass=NullPool)),
    Way("QueuePool of 1", in_session(Session, poolclass=QueuePool, pool_size=1, max_overflow=0)),
    Way("pre-ping", in_session(Session, pool_pre_ping=True)),
    *(Way(name, by_an_event(name)) for name in ("before_flush", "after_flush", "before_commit")),
    *(
        Way(f"AsyncSession, {driver}", asynchronous(driver), (database,))
        for database, drivers in _ASYNC.items()
        for driver in drivers
    ),
)
