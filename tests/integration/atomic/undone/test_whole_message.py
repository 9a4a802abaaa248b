"""The rows of one message are there together or not at all, wherever its statements break off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.each_database


class Interrupted(Exception):
    """As Celery's soft time limit: it comes between any two statements."""


@contextmanager
def broken_off(engine: sa.Engine, at: int) -> Iterator[None]:
    """Interrupt before the statement of this number, and no other."""
    left = at

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise Interrupted

    sa.event.listen(engine, "before_cursor_execute", count)
    yield
    sa.event.remove(engine, "before_cursor_execute", count)


@pytest.mark.parametrize("key", [None, "order-1"])
def test_a_message_to_several_is_whole_or_not_there(shop: Shop, key: str | None) -> None:
    """Given an enqueue that breaks off and is caught, what commits has all its recipients."""
    several = message("a@x.example", "b@x.example", "c@x.example")
    whole = 0
    for at in range(12):
        with shop.session() as session, broken_off(shop.engine, at):
            shop.order(session, f"Ada {at}") if at else session.connection()
            try:
                shop.outbox.enqueue(several, session=session, key=key and f"{key}-{at}")
            except Interrupted:
                pass
            else:
                whole += 1
            session.commit()
    assert whole > 0
    for email in shop.rows(shop.tables.email):
        assert len(shop.recipients(email.id)) == email.recipients == 3


def test_a_message_to_several_commits_with_its_recipients_in_order(shop: Shop) -> None:
    email = shop.enqueue("b@x.example", "a@x.example", "é@x.example")
    rows = shop.rows(shop.tables.recipient)
    assert [(row.email_id, row.position, row.address) for row in rows] == [
        (email.id, 0, "b@x.example"),
        (email.id, 1, "a@x.example"),
        (email.id, 2, "é@x.example"),
    ]
    assert {row.status for row in rows} == {"pending"}
