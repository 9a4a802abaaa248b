"""A command or a page that reads a table which somebody has locked ends soon, and says so."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.store.bounded_waits import bounded_reads
from outbox.store.connection.database import Database
from tests.integration.dashboard.desk import Desk
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("postgresql", "mariadb")

PATIENCE = 30.0
TABLES = ("email", "recipient", "audit", "job", "stat", "tally", "worker", "suppression", "counter")
LOCKS = {
    "postgresql": ("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", ""),
    "mariadb": ("LOCK TABLES {}", " WRITE"),
}
COMMANDS = (
    "stats", "list", "show 1", "problems", "progress", "backlog", "figures", "workers", "jobs",
    "job show 1", "audit", "source 1", "held", "suppress", "export ada@x.example",
    "job start retry --status failed --dry-run", "retry --status failed", "retry 1",
    "resolve 1 --as sent", "cancel --tag news", "send-again 1",
)  # fmt: skip
FEW = ("stats", "list", "show 1")
"""Those of `make test`: each waits for seconds."""


def beside_a_lock(shop: Shop, work: Callable[[], Any]) -> Any:
    """Do this while a person's session has locked the tables; that ends if it takes long."""
    lock, mode = LOCKS[shop.engine.dialect.name]
    names = ", ".join(f"outbox_{one}{mode}" for one in TABLES)
    with ThreadPoolExecutor(1) as pool, shop.engine.connect() as person:
        person.exec_driver_sql(lock.format(names))
        try:
            return pool.submit(work).result(PATIENCE)
        finally:
            person.invalidate()


def is_postgresql(shop: Shop) -> bool:
    return shop.engine.dialect.name == "postgresql"


@pytest.mark.parametrize(
    "words", [one if one in FEW else pytest.param(one, marks=pytest.mark.long) for one in COMMANDS]
)
def test_a_command_ends_soon_and_says_who_has_locked_the_table(shop: Shop, words: str) -> None:
    shop.enqueue()
    run = runner(shop)
    told = beside_a_lock(shop, lambda: run(*words.split(), code=1)).output
    assert "Error: " in told
    assert "lock" in told
    assert ("has locked outbox_" in told) is is_postgresql(shop)


@pytest.mark.parametrize("path", ["/", pytest.param("/messages", marks=pytest.mark.long)])
def test_a_page_of_the_dashboard_ends_soon_and_says_so(shops: Shops, path: str) -> None:
    desk = Desk(shops)
    page = beside_a_lock(desk.shop, lambda: desk.get(path, 503)).text
    assert "A table of the outbox is locked" in page
    desk.get(path)


@pytest.mark.parametrize("command", ["health", "check"])
def test_what_looks_for_faults_ends_soon_and_says_so(shop: Shop, command: str) -> None:
    run = runner(shop)
    told = beside_a_lock(shop, lambda: run(command, code=1)).output
    assert "holds a lock for somebody else" in told


@pytest.mark.databases("mariadb")
def test_a_connection_has_its_own_patience_again(shop: Shop) -> None:
    """The app uses it next, and may rely on it."""
    engine = sa.create_engine(shop.engine.url, pool_size=1, max_overflow=0)
    database = Database(engine, shop.tables)

    def patience(connection: sa.Connection) -> int:
        return int(connection.exec_driver_sql("SELECT @@SESSION.lock_wait_timeout").scalar_one())

    before = database.read(patience)
    with bounded_reads(database):
        assert database.read(patience) == 2
        with pytest.raises(sa.exc.DBAPIError):
            database.read(lambda c: c.exec_driver_sql("SELECT nothing"))
    assert database.read(patience) == before > 2
    engine.dispose()
