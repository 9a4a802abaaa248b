"""A PostgreSQL whose synchronous replica is gone: what is committed there waits for its return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from sqlalchemy import make_url

from tests.support.servers.databases.postgres import Postgres
from tests.support.shop.shop import Shops
from tests.support.waiting import wait_until

PATIENCE = 60.0
WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE wait_event = 'SyncRep' AND query_start <= clock_timestamp() - make_interval(secs => %s)
"""


class Primary:
    """A server of its own, as the setting is the whole server's."""

    def __init__(self, server: Postgres) -> None:
        self.shops = Shops(url=server.new_database())
        plain = make_url(self.shops.url).set(drivername="postgresql")
        self._admin = psycopg.connect(plain.render_as_string(), autocommit=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the replica be gone within the block."""
        self._set("nobody")
        try:
            yield
        finally:
            self._set("")

    @contextmanager
    def awaited(self, what: Callable[[], object], seconds: float = 0.0) -> Iterator[Future[Any]]:
        """Have the replica be gone, and a commit wait for it for so long before the block."""
        with ThreadPoolExecutor(1) as pool, self.alone():
            waits = pool.submit(what)
            wait_until(lambda: self.waiting(seconds), PATIENCE, "the commit to wait")
            yield waits
        waits.result(PATIENCE)

    def waiting(self, seconds: float = 0.0) -> int:
        """Return how many commits have waited for so long."""
        row = self._admin.execute(WAITING, (seconds,)).fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        self._admin.close()
        self.shops.close()

    def _set(self, name: str) -> None:
        self._admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'".encode())
        self._admin.execute("SELECT pg_reload_conf()")
        wait_until(lambda: self._is_set(name), PATIENCE, "the setting")

    def _is_set(self, name: str) -> bool:
        row = self._admin.execute("SHOW synchronous_standby_names").fetchone()
        return row == (name,)


@contextmanager
def primary() -> Iterator[Primary]:
    """Start such a server, whose replica is not needed yet."""
    with Postgres(durable=False) as server, closing(Primary(server)) as found:
        yield found
