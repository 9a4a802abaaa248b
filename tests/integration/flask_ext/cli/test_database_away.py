"""A database that does not serve is told of with its address, the reason and the remedy."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy import URL, make_url

from outbox import Outbox
from outbox.flask_ext.management.failures.database_line import database_line
from outbox.store.connection.database import Database
from outbox.store.schema.tables import define
from tests.support.servers.databases.pgbouncer import PgBouncer
from tests.support.servers.ports import LOOPBACK, free_port
from tests.support.shop.shop import Shops

COMMANDS = ("check", "health", "stats")
SECRET = "s3cret-of-the-shop"


def line(engine: sa.Engine, error: BaseException) -> str:
    return database_line(Database(engine, define(sa.MetaData())), error)


@contextmanager
def app_on(url: URL) -> Iterator[Flask]:
    app, engine = Flask("shop"), sa.create_engine(url)
    Outbox().init_app(app, metadata=sa.MetaData(), engine=engine)
    try:
        yield app
    finally:
        engine.dispose()


def told_by(app: Flask) -> str:
    """Return the line on the database, which `check`, `health` and `stats` tell alike."""
    found = [app.test_cli_runner().invoke(args=["outbox", name]) for name in COMMANDS]
    lines = [one for f in found for one in f.output.splitlines() if "the database " in one]
    assert [f.exit_code for f in found] == [1, 1, 1], found[-1].output
    assert len(lines) == len(found), [f.output for f in found]
    texts = {line[line.index("the database ") :] for line in lines}
    assert len(texts) == 1, texts
    assert SECRET not in "".join(f.output for f in found)
    return texts.pop()


def address(url: URL) -> str:
    return f"{url.get_backend_name()}://{url.host}:{url.port}/{url.database}"


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.each_driver
def test_one_that_is_down(shops: Shops) -> None:
    away = make_url(shops.url).set(port=free_port(), password=SECRET)
    with app_on(away) as app:
        told = told_by(app)
    assert told.startswith(f"the database {address(away)} cannot be reached (OperationalError")
    assert "start it, or mend the host, the port" in told


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.each_driver
def test_one_that_takes_connections_and_is_silent(shops: Shops) -> None:
    """As one that stands still: the kernel takes its connections."""
    limits = {"connect_timeout": 1}
    if make_url(shops.url).get_driver_name() == "pymysql":
        limits["read_timeout"] = 1
    with socket.create_server((LOOPBACK, 0)) as silent:
        url = make_url(shops.url).set(port=silent.getsockname()[1])
        engine = sa.create_engine(url, connect_args=limits)
        with pytest.raises(sa.exc.OperationalError) as failure:
            engine.connect()
    told = line(engine, failure.value)
    assert told.startswith(f"the database {address(url)} does not answer (")
    assert "may stand still" in told
    assert "start it" not in told


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.each_driver
def test_one_that_does_not_exist(shops: Shops) -> None:
    wrong = make_url(shops.url).set(database="nowhere")
    with app_on(wrong) as app:
        told = told_by(app)
    assert told.startswith(f"the database {address(wrong)} does not exist (OperationalError")
    assert "create it, or mend the database's name" in told


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.each_driver
def test_a_login_that_it_refuses(shops: Shops) -> None:
    wrong = make_url(shops.url).set(username="nobody_at_all", password=SECRET)
    with app_on(wrong) as app:
        told = told_by(app)
    assert told.startswith(f"the database {address(wrong)} refuses the login (OperationalError")
    assert "mend the user name or the password" in told
    assert "nobody_at_all" not in told


@pytest.mark.databases("mariadb")
def test_the_code_is_told_where_the_driver_has_one(shops: Shops) -> None:
    url = make_url(shops.url)
    for wrong, code in ((url.set(database="nowhere"), 1049), (url.set(username="nobody"), 1045)):
        with app_on(wrong) as app:
            assert f"(OperationalError {code})" in told_by(app)


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_pool_in_statement_mode(shops: Shops) -> None:
    port = make_url(shops.url).port
    assert port is not None
    with PgBouncer(port, "statement") as pool:
        url = make_url(pool.before(shops.url))
        with app_on(url) as app:
            told = told_by(app)
    assert told.startswith(f"the database {address(url)} allows no transactions, because the pool")
    assert "(ProtocolViolation 08P01): set pool_mode = transaction" in told


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_one_that_is_down_behind_a_pool(shops: Shops) -> None:
    with PgBouncer(free_port(), "transaction", patience=1) as pool:
        url = make_url(pool.before(shops.url))
        with app_on(url) as app:
            told = told_by(app)
    assert told.startswith(f"the database {address(url)} cannot be reached by the pool before it (")
    assert "start the database, or mend its host" in told


@pytest.mark.databases("sqlite")
def test_a_password_that_spills_over_into_the_host_is_not_told() -> None:
    engine = sa.create_engine(f"postgresql+psycopg://shop:begin@{SECRET}@127.0.0.1/shop")
    told = line(engine, sa.exc.TimeoutError())
    assert told.startswith("the database postgresql://… was not asked")
    assert SECRET not in told


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_lock_of_somebody_else_is_no_outage(shops: Shops) -> None:
    shop = shops.open()
    url = make_url(shops.url).update_query_dict({"options": "-c lock_timeout=10ms"})
    with shop.engine.connect() as person, app_on(url) as app:
        person.execute(sa.text("LOCK TABLE outbox_email"))
        told = told_by(app)
    assert "holds a lock for somebody else (LockNotAvailable 55P03): find who" in told


@pytest.mark.databases("postgresql")
@pytest.mark.each_driver
def test_several_hosts_of_which_none_takes_writes(shops: Shops) -> None:
    url = make_url(shops.url)
    engine = sa.create_engine(url)
    with engine.begin() as admin:
        admin.exec_driver_sql(
            f"ALTER DATABASE {url.database} SET default_transaction_read_only = on"
        )
    engine.dispose()
    hosts = [f"{url.host}:{url.port}", f"localhost:{url.port}"]
    query = {"host": hosts, "target_session_attrs": "read-write"}
    with app_on(
        URL.create(url.drivername, url.username, database=url.database, query=query)
    ) as app:
        told = told_by(app)
    assert f"the database postgresql://{','.join(hosts)}/{url.database} takes no writes" in told
    assert "Have the engine's URL lead to the primary" in told


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("/shop?host=a,b&port=1,2", "postgresql://a:1,b:2/shop"),
        ("/shop?host=a:1&host=b:2", "postgresql://a:1,b:2/shop"),
        ("/shop?host=/var/run/postgresql", "postgresql:///shop"),
        ("shop:begin@/shop?host=s3cret@a", "postgresql://…"),
    ],
)
def test_the_address_of_several_hosts(url: str, told: str) -> None:
    engine = sa.create_engine(f"postgresql+psycopg://{url}")
    assert line(engine, sa.exc.TimeoutError()).startswith(f"the database {told} was not")
