"""A database is silent: no command stands still for ever, and none without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
import sqlalchemy as sa
from click.testing import Result

from outbox.flask_ext.cli import silence
from outbox.flask_ext.management.failures.database_line import address_of
from tests.integration.lost_replica import Primary, primary
from tests.support.servers.databases.drivers import over
from tests.support.servers.databases.mariadb import MariaDB
from tests.support.servers.databases.postgres import Postgres
from tests.support.shop.schema import fill
from tests.support.shop.shop import Shop, Shops
from tests.support.waiting import wait_until

PATIENCE = 60.0
BOUNDED = ("check", "health", "watch", "pause", "resume", "suppress")
SERVERS = {"postgresql": Postgres, "mariadb": MariaDB}
SOON = {"TOLD": 0.2, "MOST": 4.0, "AFTERWARDS": 0.2}
"""A server that is well answers in less, also on a machine that is busy."""
FROZEN = {"MOST": 1.0, "CONNECT": 1}
MAY_BE = "may have been made, or be made later"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in SOON.items():
        monkeypatch.setattr(silence, name, seconds)


@contextmanager
def running(shop: Shop, *words: str) -> Iterator[Future[Result]]:
    """Run a command in a thread of its own: where it waits without end, the test fails."""
    pool = ThreadPoolExecutor(1)
    try:
        yield pool.submit(shop.app.test_cli_runner().invoke, args=["outbox", *words])
    finally:
        pool.shutdown(wait=False)


def told(shop: Shop, *words: str) -> Result:
    with running(shop, *words) as result:
        return result.result(PATIENCE)


def words_of(command: str) -> tuple[str, ...]:
    return (command, "ada@example.org") if command == "suppress" else (command,)


@pytest.fixture(scope="module")
def replicated() -> Iterator[Primary]:
    with primary() as found:
        yield found


@pytest.mark.long
@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("command", ["pause", "suppress"])
def test_a_commit_that_waits_for_a_replica_is_given_up(replicated: Primary, command: str) -> None:
    shop = replicated.shops.open()
    with replicated.alone():
        result = told(shop, *words_of(command))
    assert result.exit_code == 1
    [given_up] = [one for one in result.stderr.splitlines() if one.startswith("Error: ")]
    assert "has not confirmed the commit for" in given_up
    assert MAY_BE in given_up
    assert "outbox: commits wait for a synchronous replica" in result.stderr


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_command_that_is_not_given_up_tells_for_what_it_waits(
    replicated: Primary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "MOST", FROZEN["MOST"])
    shop = replicated.shops.open()
    email = shop.enqueue()
    with replicated.alone(), running(shop, "cancel", "--id", str(email.id)) as result:
        wait_until(lambda: replicated.waiting(2 * silence.MOST), PATIENCE, "the commit to wait")
        assert not result.done()
    found = result.result(PATIENCE)
    assert found.exit_code == 0, found.output
    assert "has not confirmed the commit for" in found.stderr
    assert "outbox: commits wait for a synchronous replica" in found.stderr


@pytest.mark.one_database("postgresql")
def test_connections_of_other_threads_are_none_of_the_commands(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a process that serves requests runs a command, too."""
    monkeypatch.setattr(silence, "MOST", 0.3)
    engine = shop.engine
    with silence.Silence(shop.database).watched() as watched, ThreadPoolExecutor(1) as pool:
        watched.is_bounded = True
        other = pool.submit(engine.connect).result(PATIENCE)
        with engine.connect() as own:
            wait_until(lambda: watched.gave_up, PATIENCE, "the command's own to be given up")
            own.invalidate()
        assert pool.submit(other.exec_driver_sql, "SELECT 1").result(PATIENCE).scalar() == 1
        other.close()


@pytest.mark.one_database("postgresql")
def test_a_further_command_changes_no_listener_of_the_engine(shop: Shop) -> None:
    """Another thread may be calling them just then: a list that changes meanwhile is an error."""

    def listeners() -> list[object]:
        pool, engine = shop.engine.pool.dispatch, shop.engine.dispatch
        return [
            *pool.checkout,
            *pool.checkin,
            *engine.commit,
            *shop.engine.dialect.dispatch.do_connect,
        ]

    with silence.Silence(shop.database).watched():
        before = listeners()
    assert listeners() == before
    shop.engine.dispose()
    with silence.Silence(shop.database).watched():
        assert listeners() == before


@pytest.fixture
def frozen(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], Shop]]:
    """Freeze a server of its own; its driver is that of the run."""
    for name, seconds in FROZEN.items():
        monkeypatch.setattr(silence, name, seconds)
    url = sa.make_url(database_url)
    with SERVERS[url.get_backend_name()](durable=False) as server, ExitStack() as ends:

        def freeze(is_open: bool) -> Shop:
            shops = Shops(url=over(server.new_database(fill), url.get_driver_name()))
            shop = shops.open()
            ends.callback(shops.close)
            shop.enqueue()
            if not is_open:
                shop.engine.dispose()
            server.freeze()
            ends.callback(server.thaw)
            return shop

        yield freeze


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.each_driver
@pytest.mark.long
@pytest.mark.parametrize("is_open", [True, False])
def test_a_frozen_database_is_given_up(frozen: Callable[[bool], Shop], is_open: bool) -> None:
    shop = frozen(is_open)
    for command in BOUNDED if is_open else BOUNDED[:1]:
        result = told(shop, *words_of(command))
        assert result.exit_code == (command != "watch"), (command, result.output)
        assert f"outbox: the database {address_of(shop.engine)} has not answered" in result.stderr
        assert is_open or "does not answer" in result.stdout
