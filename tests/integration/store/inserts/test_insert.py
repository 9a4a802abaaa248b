"""Every way of inserting writes the same rows, and none of them keeps the session to itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from sqlalchemy import select

from outbox import Priority, Status
from outbox.store.postgresql import copy, insert
from tests.support.shop.shop import Shop, addresses, message, newsletter

pytestmark = [pytest.mark.each_database, pytest.mark.each_driver]

LATER = datetime(2099, 5, 4, 12, 0, tzinfo=UTC)
OWN = ("id", "content_id", "message_id", "headers", "created_at", "due_at")
"""Columns that no two emails have in common."""


def plain_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a driver that can neither COPY nor take a statement as it is."""
    for way in (copy, insert):
        monkeypatch.setattr(way, "is_possible", lambda _: False)


def written(shop: Shop) -> list[dict[str, Any]]:
    """Write emails in every way, and return their rows with their contents, without the times."""
    first = shop.count(shop.tables.email)
    with shop.session() as session:
        options: dict[str, Any] = {"session": session, "on_unknown": "hold", "tag": "t"}
        enqueue, many = shop.outbox.enqueue, shop.outbox.enqueue_many
        enqueue(message(**{"Message-ID": "<1@x.example>"}), **options, max_attempts=3)
        enqueue(message("a@x.example", "b@x.example"), **options, send_at=LATER)
        many([message(a, text=a) for a in addresses(3)], **options, priority="urgent")
        many([message(a, text=a) for a in addresses(2)], **options, send_at=LATER)
        many(
            newsletter(),
            addresses(3),
            **options,
            send_at=LATER,
            expires_at=LATER.replace(year=2100),
        )
        many(newsletter(), addresses(3), **options)
        session.commit()
    bodies = {row.id: row for row in shop.rows(shop.tables.content)}
    found = []
    for row in shop.rows(shop.tables.email)[first:]:
        content = bodies[row.content_id]
        kept = {k: v for k, v in row._mapping.items() if k not in OWN}
        kept["later"] = row.send_at is not None and row.due_at == row.send_at
        kept["at once"] = abs(row.due_at - row.created_at) < timedelta(hours=1)
        kept["content"] = (content.size == len(content.body), content.crc32, content.sha256)
        found.append(kept)
    return found


def test_the_rows_say_when_they_are_due(shop: Shop) -> None:
    rows = written(shop)
    assert [row["later"] for row in rows] == [False, True, *[False] * 3, *[True] * 5, *[False] * 3]
    assert all(row["later"] or row["at once"] for row in rows)
    assert {row["status"] for row in rows} == {Status.PENDING}
    assert {row["priority"] for row in rows[2:5]} == {Priority.URGENT}
    assert all(row["content"][0] for row in rows)


@pytest.mark.long
@pytest.mark.usefixtures("small_chunks")
def test_the_iterables_and_functions_of_the_user_may_ask_the_same_session(shop: Shop) -> None:
    """A list of readers is often a query on the session that they are enqueued in."""
    with shop.session() as session:
        shop.order(session, "Ada")

        def readers() -> Iterator[str]:
            for address in addresses(150):
                assert session.execute(select(shop.orders.c.customer)).scalar_one() == "Ada"
                yield address

        def emails() -> Iterator[EmailMessage]:
            for address in readers():
                yield message(address)

        def url(address: str) -> str:
            customer = session.execute(select(shop.orders.c.customer)).scalar_one()
            return f"https://x.example/{customer}/{address}"

        shop.outbox.enqueue_many(newsletter(), readers(), session=session)
        shop.outbox.enqueue_many(newsletter(), addresses(150), session=session, unsubscribe=url)
        shop.outbox.enqueue_many(emails(), session=session)
        session.commit()
    assert shop.count(shop.tables.email) == 450


def test_large_emails_of_one_run_share_what_is_the_same_in_them(shop: Shop) -> None:
    terms = "Terms. " * 20_000
    with shop.session() as session:
        emails = [message(address, text=terms) for address in addresses(5)]
        shop.outbox.enqueue_many(emails, session=session)
        session.commit()
    assert shop.count(shop.tables.email) == 5
    assert shop.count(shop.tables.content) == 1
