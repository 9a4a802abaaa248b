"""`redact="when sent"`: the body goes in the transaction that writes the end, and not before."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from outbox import Status
from outbox.domain.delivery.status import FINISHED
from outbox.store.inserts import contents
from outbox.store.schema.clock import utc
from outbox.worker.drain import drain
from tests.integration.store.transitions.test_lifecycle import WAYS, Step, part
from tests.integration.store.transitions.test_uncharge import judged, taken_back
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, addresses, message, newsletter, sent

pytestmark = pytest.mark.each_database

ONCE: dict[str, Any] = {"redact": "when sent"}
ENDS = {
    f"{source}-{target}-{number}": (way, target)
    for (source, target), ways in WAYS.items()
    for number, way in enumerate(ways)
    if (source, target) != (Status.FAILED, Status.PENDING)  # it cannot be retried: see below
}


def body(shop: Shop, email_id: int) -> tuple[bytes, bytes, str | None]:
    """Return all that the table has of a message: content, own headers, and values."""
    row, content = shop.email_row(email_id), shop.tables.content
    (stored,) = shop.rows(content, content.c.id == row.content_id)
    return stored.body, row.headers, row.merge


def is_bare(shop: Shop, email_id: int) -> bool:
    """Whether nothing of the message is left; the row and its content must agree on that."""
    row, content = shop.email_row(email_id), shop.tables.content
    (stored,) = shop.rows(content, content.c.id == row.content_id)
    bare = body(shop, email_id) == (b"", b"", None)
    assert bare == (row.redacted_at is not None) == (stored.redacted_at is not None)
    assert not bare or (stored.size, stored.crc32, stored.sha256) == (0, 0, None)
    return bare


@pytest.mark.matrix
@pytest.mark.parametrize("case", ENDS)
def test_the_body_goes_with_the_end_whatever_it_is_and_with_nothing_else(
    shop: Shop, case: str
) -> None:
    """An email in doubt keeps it, even where it has ended unknown: a person may send it again."""
    way, target = ENDS[case]
    start = utc(shop.email_row(shop.enqueue(priority="bulk").id).created_at)
    to = ("a@x.example", "b@x.example") if part in way else ("a@x.example",)
    email = shop.enqueue(*to, expires_at=start + timedelta(seconds=900), **ONCE)
    _walk(shop, email.id, way)
    assert shop.status(email.id) is target
    assert is_bare(shop, email.id) == (target in FINISHED)


def _walk(shop: Shop, email_id: int, way: tuple[Step, ...]) -> None:
    for step in way:
        assert not is_bare(shop, email_id)
        step(shop, email_id)


@pytest.mark.each_driver
def test_the_code_arrives_and_is_nowhere_afterwards(sending: Shop, catcher: Catcher) -> None:
    email = sending.enqueue("a@x.example", **ONCE)
    other = sending.enqueue("b@x.example")
    assert drain(sending.runtime) == 2
    assert all(b"Thank you." in caught.content for caught in catcher.emails)
    assert is_bare(sending, email.id)
    assert not is_bare(sending, other.id)
    shown = sending.outbox.get(email.id)
    assert shown is not None
    assert (shown.status, shown.subject) == (Status.SENT, "")
    assert shown.redacted_at is not None


def test_a_redacted_content_is_never_read_as_an_empty_one(shop: Shop) -> None:
    bare, whole = shop.enqueue(**ONCE).id, shop.enqueue().id
    shop.outbox.cancel_now(bare)
    ids = [shop.email_row(email_id).content_id for email_id in (bare, whole)]
    assert set(shop.database.read(lambda c: contents.read(c, shop.database, ids))) == {ids[1]}


def test_each_of_many_has_a_body_of_its_own_that_goes_with_it(
    sending: Shop, catcher: Catcher
) -> None:
    letter = newsletter("Your code is {{ code }}.")
    with sending.session() as session:
        sending.outbox.enqueue_many(
            letter, addresses(2), session=session, fields=lambda to: {"code": f"({to})"}, **ONCE
        )
        sending.outbox.enqueue_many(
            [message("c@x.example", text="Terms. " * 20_000)], session=session, **ONCE
        )
        session.commit()
    assert sending.count(sending.tables.content) == 3
    assert [row.sha256 for row in sending.rows(sending.tables.content)] == [None] * 3
    drain(sending.runtime)
    told = sorted(caught.content for caught in catcher.emails)
    assert all(any(f"({to})".encode() in octets for octets in told) for to in addresses(2))
    assert all(is_bare(sending, row.id) for row in sending.rows(sending.tables.email))


def test_a_body_that_goes_is_shared_with_nobody(shop: Shop) -> None:
    large = message(text="Terms. " * 20_000)
    with shop.session() as session:
        for options in ({}, ONCE, {}):
            shop.outbox.enqueue(large, session=session, **options)
            session.commit()
    first, own, last = (row.content_id for row in shop.rows(shop.tables.email))
    assert first == last != own


def test_a_recording_that_dies_in_the_midst_leaves_the_body_and_the_status(shop: Shop) -> None:
    email = shop.enqueue(**ONCE)
    made = shop.sending(email.id)

    def die(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE outbox_content"):
            raise KeyboardInterrupt

    event.listen(shop.engine, "before_cursor_execute", die)
    with suppress(KeyboardInterrupt):
        shop.record(made.token, [sent(email.id)])
    event.remove(shop.engine, "before_cursor_execute", die)
    assert shop.status(email.id) is Status.SENDING
    assert not is_bare(shop, email.id)
    shop.record(made.token, [sent(email.id)])
    assert shop.status(email.id) is Status.SENT
    assert is_bare(shop, email.id)


def test_an_email_without_its_body_is_never_pending_again(shop: Shop) -> None:
    """Neither for a person nor where the refusals turn out to be the server's own fault."""
    bare, whole = shop.enqueue(**ONCE).id, shop.enqueue().id
    judged(shop, bare, whole)
    assert taken_back(shop) == 1
    assert (shop.status(bare), shop.status(whole)) == (Status.FAILED, Status.PENDING)
    done = shop.outbox.retry([bare, 99])
    assert (done.changed, done.redacted) == ({}, (bare,))
    assert [str(one) for one in done.unchanged] == ["has no body any more", "no such email"]
    assert shop.outbox.retry(status="failed").redacted == (bare,)
