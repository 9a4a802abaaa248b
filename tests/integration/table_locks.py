"""A person's session that holds a whole table, and a statement that waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import sqlalchemy as sa

from tests.support.shop.shop import Shop
from tests.support.waiting import wait_until

PATIENCE = 60.0
AWAITED = """
SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'
    AND waitstart < clock_timestamp() - make_interval(secs => %s)
"""
END = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'psql' AND datname = current_database()
"""


@contextmanager
def locked(
    shop: Shop, mode: str = "ACCESS EXCLUSIVE", table: str = "outbox_email"
) -> Iterator[str]:
    """Have a person's session hold the table; yield what tells of this session."""
    engine = sa.create_engine(shop.engine.url, connect_args={"application_name": "psql"})
    with engine.connect() as person:
        pid = person.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        person.exec_driver_sql(f"LOCK TABLE {table} IN {mode} MODE")
        try:
            yield f"PostgreSQL's session {pid} (psql, idle in transaction) has locked {table}"
        finally:
            person.invalidate()
    engine.dispose()


@contextmanager
def awaited(shop: Shop, what: Callable[[], object], seconds: float = 0.0) -> Iterator[None]:
    """Have a statement wait for a locked table for so long before the block, and end behind it."""
    with ThreadPoolExecutor(1) as pool, shop.engine.connect() as watcher:
        waits = pool.submit(what)
        waited = lambda: watcher.exec_driver_sql(AWAITED, (seconds,)).scalar_one()  # noqa: E731
        wait_until(waited, PATIENCE, "the statement to wait")
        try:
            yield
        finally:
            watcher.exec_driver_sql(END)
            waits.result(PATIENCE)
