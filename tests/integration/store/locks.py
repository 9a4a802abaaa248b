"""A person's transaction that holds rows, and workers for whom a wait for it is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import Session

from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import Motion

PATIENCE = 15.0

SENT, UNTOUCHED = ("sent", 1, 0, 0), ("pending", 0, 0, 0)
"""What `motion.standing` tells of an email."""

ROUTES = [
    {"name": "news", "tag": "news", "servers": ["a"]},
    {"name": "rest", "servers": ["b"]},
]
"""News go over A, and everything else over B."""

OURS = {"isolation_level": "READ COMMITTED"}  # or MariaDB would lock the gaps beside the rows, too


@contextmanager
def no_waiting(shop: Shop) -> Iterator[None]:
    """Fail where a statement of this shop's has waited for a lock, also where it was repeated."""
    waited: list[str] = []

    @sa.event.listens_for(shop.engine, "handle_error")
    def note(context: sa.engine.ExceptionContext) -> None:
        if "set_config('lock_timeout', '10ms'" in str(context.statement):
            return  # it hopes that all rows are free, and waits no longer than that
        waited.append(f"{context.original_exception}: {context.statement}")

    yield
    assert not waited


def in_time(work: Callable[[], Any], session: Session) -> Any:
    """Return what `work` does beside the session's transaction, which ends if that takes long."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        try:
            return done.result(timeout=PATIENCE)
        except BaseException:
            session.rollback()
            raise


def hold(shop: Shop, session: Session, *ids: int) -> None:
    """Lock these rows, whatever their status, as any statement of a person's may."""
    email = shop.tables.email
    session.execute(sa.select(email.c.id).where(email.c.id.in_(ids)).with_for_update())


def swept(workers: Shops, catcher: Catcher, **config: object) -> Motion:
    """Open a worker's shop; a sweep has claimed what is due, and no batch has started yet."""
    motion = Motion(shop=workers.open(MAIL_PORT=catcher.port, **config))
    motion.sweep()
    return motion


@contextmanager
def vanished(shop: Shop, table: sa.Table, *names: object) -> Iterator[Session]:
    """Hold the rows of these names, or else all rows of the table."""
    (key,) = table.primary_key
    with shop.session() as session:
        session.connection(execution_options=OURS)
        for name in names:
            row = sa.select(key).where(key == name).with_for_update()
            assert session.execute(row).scalar_one() == name
        if not names:
            assert session.execute(sa.select(table).with_for_update()).all()
        yield session
        session.rollback()


def lock_lease(shop: Shop, session: Session, token: UUID) -> None:
    """Hold the row of this lease."""
    table = shop.tables.lease
    assert session.execute(table.select().where(table.c.token == token).with_for_update()).one()
