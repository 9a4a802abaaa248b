"""A started batch, as a send task has it, and the statements that it takes."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import event

from outbox import Priority
from outbox.store.records import Batch
from tests.support.shop.shop import Shop


def batch(shop: Shop, *to: str, emails: int = 1, priority: Priority = Priority.NORMAL) -> Batch:
    """Return a started batch of so many emails to these addresses."""
    for _ in range(emails):
        shop.enqueue(*(to or ("a@x.example",)), priority=priority)
    (made,) = shop.claim(priority=priority)
    started = shop.start(made.token)
    assert started is not None
    return started


def statements(shop: Shop, work: Callable[[], object]) -> int:
    """Return how many statements some work takes."""
    seen: list[str] = []

    def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        seen.append(statement)

    event.listen(shop.engine, "before_cursor_execute", note)
    work()
    event.remove(shop.engine, "before_cursor_execute", note)
    return len(seen)
