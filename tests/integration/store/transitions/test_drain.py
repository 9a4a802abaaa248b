"""The whole way without Celery: claim, window, SMTP, record, against a real SMTP server."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from outbox import Priority, Status
from outbox.domain.message.personalize import Recipient
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, addresses, message, newsletter

pytestmark = pytest.mark.each_database

PATIENCE = 60.0


def test_to_cc_and_bcc_each_get_the_email_and_nobody_sees_the_bcc(
    sending: Shop, catcher: Catcher
) -> None:
    mail = message("a@x.example", Cc="c@x.example", Bcc="b@x.example")
    with sending.session() as session:
        email = sending.outbox.enqueue(mail, session=session)
        session.commit()
    assert drain(sending.runtime) == 1
    (caught,) = catcher.emails
    assert caught.sender == "shop@shop.example"
    assert set(caught.recipients) == {"a@x.example", "b@x.example", "c@x.example"}
    assert b"b@x.example" not in caught.content
    assert b"bcc" not in caught.content.lower()
    assert set(sending.recipients(email.id).values()) == {"sent"}


@pytest.mark.parametrize("large", [False, True])
def test_the_bytes_that_arrive_are_the_bytes_that_are_stored(
    sending: Shop, catcher: Catcher, large: bool
) -> None:
    text = ".\n..dots\n\nGr\u00fc\u00dfe\n" * (5000 if large else 1)
    with sending.session() as session:
        email = sending.outbox.enqueue(message(text=text), session=session)
        session.commit()
    drain(sending.runtime)
    (row,), (content,) = sending.rows(sending.tables.email), sending.rows(sending.tables.content)
    (caught,) = catcher.emails
    assert caught.content == row.headers + content.body
    assert bool(row.headers) is large
    assert caught.message_id == email.message_id
    assert len(caught.content) == row.size


@pytest.mark.long
def test_a_newsletter_arrives_with_each_readers_own_to(sending: Shop, catcher: Catcher) -> None:
    with sending.session() as session:
        readers: list[Recipient] = [("Ada", "ada@x.example"), *addresses(450)]
        sending.outbox.enqueue_many(newsletter(), readers, session=session)
        session.commit()
    sending.runtime.clock = lambda: 0.0  # a slow machine's batch would give its rest back
    assert drain(sending.runtime) == 451
    assert len(catcher.emails) == 451
    assert all(
        caught.recipients[0].encode() in caught.content.partition(b"\r\nMessage-ID")[0]
        for caught in catcher.emails
    )
    assert len(catcher.copies()) == 451
    assert set(sending.statuses()) == {"sent"}
    assert sending.count(sending.tables.lease) == 0


def test_urgent_email_leaves_first(sending: Shop, catcher: Catcher) -> None:
    for priority in (Priority.BULK, Priority.NORMAL, Priority.URGENT):
        sending.enqueue(f"{priority.name.lower()}@x.example", priority=priority)
    drain(sending.runtime)
    order = [caught.recipients[0].partition("@")[0] for caught in catcher.emails]
    assert order == ["urgent", "normal", "bulk"]


def test_a_damaged_content_fails_alone_and_the_rest_goes_on(
    sending: Shop, catcher: Catcher
) -> None:
    emails = [sending.enqueue(f"{name}@x.example") for name in "abc"]
    content = sending.tables.content
    damaged = sending.email_row(emails[1].id).content_id
    with sending.engine.begin() as connection:
        connection.execute(update(content).where(content.c.id == damaged).values(body=b"torn"))
    drain(sending.runtime)
    assert sending.statuses() == ["sent", "failed", "sent"]
    assert {r for caught in catcher.emails for r in caught.recipients} == {
        "a@x.example",
        "c@x.example",
    }
    replies = {row.email_id: row.reply for row in sending.rows(sending.tables.attempt)}
    assert "damaged" in replies[emails[1].id]


@pytest.mark.long
def test_an_outage_charges_nobody_opens_the_breaker_and_loses_nothing(
    sending: Shop, catcher: Catcher
) -> None:
    catcher.stop()
    for address in addresses(30):
        sending.enqueue(address)
    drain(sending.runtime)
    for row in sending.rows(sending.tables.email):
        assert (row.status, row.token) == (Status.PENDING, None)
        assert (row.attempts, row.crashes, row.unknown_count) == (0, 0, 0)
        assert row.due_at == row.created_at
    (breaker,) = sending.rows(sending.tables.breaker)
    assert "connect" in breaker.reason
    assert sending.count(sending.tables.lease) == sending.count(sending.tables.attempt) == 0
    assert drain(sending.runtime) == 0  # the breaker is open

    catcher.start()
    sending.later(6)
    drain(sending.runtime)
    assert set(sending.statuses()) == {"sent"}
    assert sending.count(sending.tables.breaker) == 0
    assert set(catcher.copies().values()) == {1}
    assert len(catcher.copies()) == 30


def test_an_outage_that_goes_on_is_probed_and_no_email_is_touched(
    sending: Shop, catcher: Catcher
) -> None:
    catcher.stop()
    for address in addresses(5):
        sending.enqueue(address)
    drain(sending.runtime)
    for seconds in (6, 11, 21):
        sending.later(seconds)
        assert drain(sending.runtime) == 0
    (breaker,) = sending.rows(sending.tables.breaker)
    assert breaker.failures == 4
    assert {row.attempts for row in sending.rows(sending.tables.email)} == {0}


@pytest.mark.long
def test_a_server_that_goes_away_in_the_middle_charges_nobody(
    sending: Shop, catcher: Catcher
) -> None:
    seen: list[str] = []

    def full(address: str) -> str | None:
        seen.append(address)
        return "421 4.3.2 closing" if len(seen) > 7 else None

    for address in addresses(20):
        sending.enqueue(address)
    catcher.reply_to_recipient = full
    drain(sending.runtime)
    assert sending.statuses().count("sent") == len(catcher.emails) == 7
    assert sending.statuses().count("pending") == 13
    assert len(seen) == 9  # two show that it is the server: nothing more was tried
    assert sending.rows(sending.tables.breaker)[0].failures == 1
    waiting = [row for row in sending.rows(sending.tables.email) if row.status == "pending"]
    assert {(row.attempts, row.crashes, row.unknown_count) for row in waiting} == {(0, 0, 0)}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("reply", "status"), [("550 5.1.1 no", "failed"), ("450 4.2.0 later", "pending")]
)
def test_a_refusal_of_one_email_is_its_own(
    sending: Shop, catcher: Catcher, reply: str, status: str
) -> None:
    for name in "abc":
        sending.enqueue(f"{name}@x.example")
    catcher.reply_to_recipient = lambda address: reply if address == "b@x.example" else None
    drain(sending.runtime)
    assert sending.statuses() == ["sent", status, "sent"]
    assert [row.attempts for row in sending.rows(sending.tables.email)] == [1, 1, 1]


def test_only_who_was_put_off_is_written_to_again_with_the_same_bytes(
    sending: Shop, catcher: Catcher
) -> None:
    replies = {"a@x.example": None, "b@x.example": "451 4.7.1 later", "c@x.example": "550 no"}
    email = sending.enqueue(*replies)
    catcher.reply_to_recipient = lambda address: replies[address]
    drain(sending.runtime)
    assert sending.recipients(email.id) == {
        "a@x.example": "sent",
        "b@x.example": "pending",
        "c@x.example": "failed",
    }
    replies["b@x.example"] = None
    sending.later(86_400)
    drain(sending.runtime)
    first, second = catcher.emails
    assert (first.recipients, second.recipients) == (("a@x.example",), ("b@x.example",))
    assert first.content == second.content
    assert sending.status(email.id) is Status.SENT
    assert set(sending.recipients(email.id).values()) == {"sent", "failed"}
