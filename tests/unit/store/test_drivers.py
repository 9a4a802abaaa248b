"""A driver or a pool with which the outbox cannot work is refused at the start, by name."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.pool import (
    AssertionPool,
    NullPool,
    Pool,
    QueuePool,
    SingletonThreadPool,
    StaticPool,
)

from outbox import ConfigurationError, Outbox
from outbox.store.connection.drivers import in_memory, unsuited, untried

POSTGRESQL = r"postgresql\+psycopg://.*pip install 'flask-mail-outbox\[postgresql\]'"
MYSQL = r"mysql\+pymysql://.*pip install 'flask-mail-outbox\[mysql\]'"


def engine(url: str, pool: type[Pool] = QueuePool) -> Engine:
    """Return what the outbox looks at of an engine, whose driver need not be installed."""
    made = make_url(url)
    kept = pool(lambda: None)  # type: ignore[arg-type]
    found: Any = SimpleNamespace(url=made, dialect=made.get_dialect()(), pool=kept)
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://db/shop",
        "postgresql+psycopg2://db/shop",
        "postgresql+psycopg2cffi://db/shop",
        "mysql+pymysql://db/shop",
        "mysql+mysqldb://db/shop",
        "mysql+cymysql://db/shop",
        "mariadb+pymysql://db/shop",
        "mariadb+mysqldb://db/shop",
        "sqlite:///shop.db",
        "sqlite://",
        "mssql+pyodbc://db/shop",  # which nobody tried
    ],
)
def test_a_driver_that_works_is_taken(url: str) -> None:
    assert unsuited(engine(url)) is None
    assert unsuited(engine(url, NullPool)) is None


def test_a_database_that_nobody_tried_is_told_of_by_name() -> None:
    assert "no test of the outbox runs on mssql" in untried(engine("mssql+pyodbc://db/shop"))[0]
    assert untried(engine("mariadb+mysqldb://db/shop")) == untried(engine("sqlite://")) == []


def test_a_database_for_which_there_are_no_statements_is_refused_by_name() -> None:
    told = unsuited(engine("oracle+oracledb://db/shop"))
    assert told is not None
    assert "does not work on the database oracle" in told
    assert "use PostgreSQL, MariaDB, MySQL or SQLite" in told


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("postgresql+pg8000://db/shop", POSTGRESQL),
        ("postgresql+asyncpg://db/shop", POSTGRESQL),
        ("postgresql+psycopg_async://db/shop", POSTGRESQL),
        ("mysql+mysqlconnector://db/shop", MYSQL),
        ("mariadb+mariadbconnector://db/shop", r"mariadb\+pymysql://.*\[mysql\]"),
        ("mysql+aiomysql://db/shop", MYSQL),
        ("mariadb+asyncmy://db/shop", r"mariadb\+pymysql://.*\[mysql\]"),
        ("sqlite+aiosqlite:///shop.db", r"sqlite\+pysqlite://$"),
    ],
)
def test_a_driver_that_does_not_is_refused_with_the_remedy(url: str, remedy: str) -> None:
    told = unsuited(engine(url))
    assert told is not None
    named = url.partition(":")[0].removesuffix("_async")
    assert f"does not work with the driver {named}" in told
    assert re.search(remedy, told)


@pytest.mark.parametrize("pool", [StaticPool, AssertionPool, SingletonThreadPool])
def test_a_pool_of_one_connection_for_all_threads_or_for_each_is_refused_with_the_remedy(
    pool: type[Pool],
) -> None:
    for url in ("postgresql+psycopg://db/shop", "mysql+pymysql://db/shop", "sqlite:///shop.db"):
        told = unsuited(engine(url, pool))
        assert told is not None
        assert f"does not work with {pool.__name__}" in told
        assert "use QueuePool or NullPool" in told
    assert unsuited(engine("sqlite://", pool)) is None, "as tests in memory need it"


@pytest.mark.parametrize(
    ("url", "memory"),
    [
        ("sqlite://", True),
        ("sqlite:///:memory:", True),
        ("sqlite:///file::memory:?cache=shared&uri=true", True),
        ("sqlite:///file:shop?mode=memory&uri=true", True),
        ("sqlite:///shop.db", False),
        ("postgresql+psycopg://db/shop", False),
        ("postgresql+psycopg:///", False),
    ],
)
def test_a_database_in_memory_is_known(url: str, memory: bool) -> None:
    assert in_memory(engine(url)) is memory


def test_it_is_refused_when_the_app_is_set_up() -> None:
    app, metadata = Flask("shop"), sa.MetaData()
    refused = engine("postgresql+pg8000://db/shop")
    with pytest.raises(ConfigurationError, match=r"postgresql\+pg8000"):
        Outbox().init_app(app, metadata=metadata, engine=refused)
    assert "outbox" not in app.extensions


STATIC = {"SQLALCHEMY_ENGINE_OPTIONS": {"poolclass": StaticPool}}


def test_it_is_refused_when_a_flask_sqlalchemy_app_is_set_up() -> None:
    app, db = Flask("shop"), SQLAlchemy()
    app.config.update(SQLALCHEMY_DATABASE_URI="sqlite:///shop.db", **STATIC)
    db.init_app(app)
    with pytest.raises(ConfigurationError, match="StaticPool"):
        Outbox().init_app(app, db=db)


def test_it_is_refused_at_the_first_use_where_flask_sqlalchemy_is_set_up_later() -> None:
    app, db, outbox = Flask("shop"), SQLAlchemy(), Outbox()
    app.config.update(SQLALCHEMY_DATABASE_URI="sqlite:///shop.db", **STATIC)
    outbox.init_app(app, db=db)
    db.init_app(app)
    with app.app_context(), pytest.raises(ConfigurationError, match="StaticPool"):
        outbox.counts()
    found = app.test_cli_runner().invoke(args=["outbox", "check"])
    assert (found.exit_code, "StaticPool" in found.output) == (1, True)
