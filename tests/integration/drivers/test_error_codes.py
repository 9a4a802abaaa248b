"""What goes wrong in a database is known for what it is, over each driver, asynchronous or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from outbox.store.connection.error_codes import (
    code_of,
    is_missing_table,
    is_outage,
    is_refusal,
    is_transient,
)
from tests.support.servers.databases.drivers import ASYNCHRONOUS, over
from tests.support.shop.shop import Shops

pytestmark = pytest.mark.each_database

Body = Callable[[sa.Connection, sa.Connection], None]


@dataclass(frozen=True)
class Codes:
    """What one database says to each mistake and mishap."""

    duplicate: int | str
    missing: int | str
    conflict: int | str
    impatient: tuple[str, ...] = ()  # so that a locked row is an error at once
    isolation: str = "READ COMMITTED"
    cut: tuple[str, frozenset[int | str | None]] | None = None


CODES = {
    "sqlite": Codes(
        duplicate="SQLITE_CONSTRAINT_UNIQUE",
        missing="SQLITE_ERROR",
        conflict="SQLITE_BUSY",
        impatient=("PRAGMA busy_timeout = 0",),
        isolation="SERIALIZABLE",
    ),
    "postgresql": Codes(
        duplicate="23505",
        missing="42P01",
        conflict="40001",
        isolation="REPEATABLE READ",
        # Some drivers hear of the server's reason, and some only of the lost connection.
        cut=(
            "SELECT pg_terminate_backend(pg_backend_pid())",
            frozenset({"57P01", "08003", "08006", None}),
        ),
    ),
    "mariadb": Codes(
        duplicate=1062,
        missing=1146,
        conflict=1205,
        impatient=("SET innodb_lock_wait_timeout = 0",),
        cut=("KILL CONNECTION_ID()", frozenset({1317, 1927, 2006, 2013})),
    ),
}


@contextmanager
def failing() -> Iterator[list[DBAPIError]]:
    """Collect the one error of the block."""
    found: list[DBAPIError] = []
    with pytest.raises(DBAPIError) as caught:
        yield found
    found.append(caught.value)


def statement(connection: sa.Connection, text: str) -> None:
    connection.exec_driver_sql(text)


def a_mistake_is_no_mishap(codes: Codes, one: sa.Connection, _: sa.Connection) -> None:
    statement(one, "INSERT INTO orders (customer) VALUES ('Ada')")
    with failing() as found, one.begin_nested():
        statement(one, "INSERT INTO orders (customer) VALUES ('Ada')")
    assert code_of(found[0]) == codes.duplicate
    assert is_refusal(found[0])
    assert not is_transient(found[0])
    assert not is_outage(found[0])
    for table in ("nowhere", "outbox_nowhere"):
        with failing() as found, one.begin_nested():
            statement(one, f"SELECT * FROM {table}")
        assert code_of(found[0]) == codes.missing
        assert is_missing_table(found[0]) is table.startswith("outbox_")
        assert not is_outage(found[0])
    one.rollback()


def a_conflict_may_be_tried_again(codes: Codes, one: sa.Connection, two: sa.Connection) -> None:
    statement(one, "INSERT INTO orders (customer) VALUES ('Ada')")
    one.commit()
    for wish in codes.impatient:
        statement(two, wish)
    two.commit()
    two.execute(sa.text("SELECT count(*) FROM orders")).all()
    statement(one, "UPDATE orders SET customer = 'Bob'")
    if codes.conflict == "40001":
        one.commit()
    with failing() as found:
        statement(two, "UPDATE orders SET customer = 'Eve'")
    assert code_of(found[0]) == codes.conflict
    assert is_transient(found[0])
    assert not is_refusal(found[0])
    two.rollback()
    one.rollback()


def a_cut_connection_is_an_outage(codes: Codes, one: sa.Connection, _: sa.Connection) -> None:
    assert codes.cut is not None
    kill, known = codes.cut
    with failing() as found:
        for text in (kill, "SELECT 1"):  # whichever it is that hears of it first
            statement(one, text)
    assert code_of(found[0]) in known
    assert is_outage(found[0])
    assert not is_transient(found[0])
    one.invalidate()


def bodies(codes: Codes) -> list[Body]:
    """Return what is tried, each with two new connections."""
    steps = [a_mistake_is_no_mishap, a_conflict_may_be_tried_again]
    steps += [a_cut_connection_is_an_outage] if codes.cut else []
    return [lambda one, two, step=step: step(codes, one, two) for step in steps]  # type: ignore[misc]


@pytest.mark.each_driver
def test_each_error_is_known(shops: Shops) -> None:
    codes = CODES[sa.make_url(shops.url).get_backend_name()]
    engine = sa.create_engine(shops.url, poolclass=NullPool, isolation_level=codes.isolation)
    for body in bodies(codes):
        with engine.connect() as one, engine.connect() as two:
            body(one, two)


def test_each_error_of_an_asynchronous_driver_is_known(shops: Shops) -> None:
    name = sa.make_url(shops.url).get_backend_name()
    codes = CODES[name]

    async def run(driver: str) -> None:
        engine = create_async_engine(
            over(shops.url, driver), poolclass=NullPool, isolation_level=codes.isolation
        )
        for body in bodies(codes):
            async with engine.connect() as one, engine.connect() as two:
                assert two.sync_connection is not None
                await one.run_sync(body, two.sync_connection)
        async with engine.begin() as connection:
            await connection.exec_driver_sql("DELETE FROM orders")

    for driver in ASYNCHRONOUS[name]:
        asyncio.run(asyncio.wait_for(run(driver), 30.0))
