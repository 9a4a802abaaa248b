"""More recipients than the server takes at once: the rest follows, and nobody gets it twice."""

from __future__ import annotations

import pytest

from outbox import Status
from outbox.domain.delivery.outcome import Outcome, RecipientStatus
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, entry

pytestmark = pytest.mark.each_database


def test_recipients_over_the_servers_limit_go_with_the_next_transaction(
    sending: Shop, catcher: Catcher
) -> None:
    full: list[str] = []

    def two_at_a_time(address: str) -> str | None:
        if address.startswith(("c@", "d@")) and len(catcher.emails) == 0:
            full.append(address)
            return "452 4.5.3 too many recipients"
        return None

    catcher.reply_to_recipient = two_at_a_time
    email = sending.enqueue("a@x.example", "b@x.example", "c@x.example", "d@x.example")
    drain(sending.runtime)
    assert full == ["c@x.example"], "after the first one the rest is not asked for"
    assert [mail.recipients for mail in catcher.emails] == [
        ("a@x.example", "b@x.example"),
        ("c@x.example", "d@x.example"),
    ]
    assert len({mail.content for mail in catcher.emails}) == 1
    row = sending.email_row(email.id)
    assert (row.status, row.attempts, row.unknown_count) == ("sent", 1, 0)
    assert set(sending.recipients(email.id).values()) == {"sent"}


def test_who_was_put_off_beside_the_rest_is_tried_again_alone(
    sending: Shop, catcher: Catcher
) -> None:
    def reply(address: str) -> str | None:
        if address.startswith("b@"):
            return "450 4.2.0 later"
        if address.startswith("c@") and len(catcher.emails) == 0:
            return "452 4.5.3 too many recipients"
        return None

    catcher.reply_to_recipient = reply
    email = sending.enqueue("a@x.example", "b@x.example", "c@x.example")
    drain(sending.runtime)
    assert [mail.recipients for mail in catcher.emails] == [("a@x.example",), ("c@x.example",)]
    assert sending.email_row(email.id).status == "pending"
    assert sending.recipients(email.id) == {
        "a@x.example": "sent",
        "b@x.example": "pending",
        "c@x.example": "sent",
    }
    catcher.reply_to_recipient = lambda _: None
    sending.later(3600)
    drain(sending.runtime)
    assert catcher.emails[-1].recipients == ("b@x.example",)
    assert sending.email_row(email.id).status == "sent"


def test_the_outcomes_so_far_are_committed_before_the_rest_is_sent(
    sending: Shop, catcher: Catcher
) -> None:
    stood: list[dict[str, str]] = []

    def reply(address: str) -> str | None:
        if address.startswith("b@"):
            if len(catcher.emails) == 0:
                return "452 4.5.3 too many recipients"
            stood.append(sending.recipients(email.id))
        return None

    email = sending.enqueue("a@x.example", "b@x.example")
    catcher.reply_to_recipient = reply
    drain(sending.runtime)
    assert stood == [{"a@x.example": "sent", "b@x.example": "pending"}]


def test_parts_that_are_refused_in_one_moment_are_both_recorded(shop: Shop) -> None:
    """And each once, where the reply to its commit was lost."""
    email = shop.enqueue("a@x.example", "b@x.example", "c@x.example")
    made = shop.sending(email.id)
    unknown = Reply(code=550, enhanced="5.1.1")
    for address in ("a@x.example", "b@x.example"):
        refused = ((address, RecipientStatus.FAILED, unknown),)
        part = Outcome(status=Status.SENDING, reply=unknown, recipients=refused, again=True)
        result = entry(email.id, part, Verdict.FAIL, phase=Phase.RCPT, several=True)
        for _ in range(2):
            shop.record(made.token, [result])
    assert list(shop.recipients(email.id).values()) == ["failed", "failed", "pending"]
    assert shop.count(shop.tables.attempt) == 2
