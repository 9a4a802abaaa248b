"""Recipients who were refused before the server hung up are written to again, if it was its fault.

Their email waits meanwhile, for the others.
"""

from __future__ import annotations

import pytest
from sqlalchemy import update

from outbox import Status
from outbox.domain.delivery.outcome import Outcome, RecipientStatus
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.store.transitions.cancel import withdraw
from tests.integration.store.transitions.test_uncharge import (
    BLOCKED,
    charged,
    enqueued,
    judged,
    reviewed,
    taken_back,
)
from tests.support.shop.shop import Shop, entry

pytestmark = pytest.mark.each_database

UNKNOWN = Reply(code=550, enhanced="5.1.1", text="no such user")


def hung_up(shop: Shop, *ids: int, logged: Reply = BLOCKED) -> None:
    """Record that the server refused a and b of each of these emails, and then hung up."""
    full = Reply(code=421, enhanced="4.7.0", text="too many errors")
    end = Outcome(
        status=Status.PENDING,
        reply=logged,
        delay=30.0,
        recipients=(
            ("a@x.example", RecipientStatus.FAILED, BLOCKED),
            ("b@x.example", RecipientStatus.FAILED, UNKNOWN),
            ("c@x.example", RecipientStatus.PENDING, full),
        ),
    )
    (made,) = shop.claim()
    assert shop.start(made.token)
    shop.open(made.token, *ids)
    verdict = Verdict.SUSPECT
    shop.record(made.token, [entry(i, end, verdict, phase=Phase.RCPT, several=True) for i in ids])


def to_three(shop: Shop) -> int:
    return shop.enqueue("a@x.example", "b@x.example", "c@x.example").id


@pytest.mark.matrix
@pytest.mark.parametrize("logged", [BLOCKED, Reply(code=421)], ids=["alone", "beside others"])
def test_who_was_refused_so_before_the_server_hung_up_is_written_to_again(
    shop: Shop, logged: Reply
) -> None:
    judged(shop, *enqueued(shop, 1))
    email = to_three(shop)
    hung_up(shop, email, logged=logged)
    judged(shop, *enqueued(shop, 1))
    due = shop.email_row(email).due_at
    with shop.engine.begin() as connection:  # nobody knows what the server said to c
        table = shop.tables.recipient
        silent = update(table).where(table.c.address == "c@x.example")
        connection.execute(silent.values(status="failed", code=None, enhanced=None, reply=None))
    assert taken_back(shop) == 2
    assert list(shop.recipients(email).values()) == ["pending", "failed", "failed"]
    assert charged(shop) == [("pending", 0)] * 3
    assert shop.email_row(email).due_at == due
    assert [row.verdict for row in shop.rows(shop.tables.attempt)] == ["halt", "suspect", "halt"]


@pytest.mark.parametrize("ends", ["claimed", "cancelled"])
def test_an_email_that_does_not_wait_any_more_is_written_to_nobody_again(
    shop: Shop, ends: str
) -> None:
    email = to_three(shop)
    hung_up(shop, email)
    shop.later(31)
    if ends == "claimed":
        shop.claim()
    else:
        shop.database.run(lambda c: withdraw(c, shop.database, id=email))
    taken_back(shop)
    rest = "pending" if ends == "claimed" else "failed"
    assert list(shop.recipients(email).values()) == ["failed", "failed", rest]


def test_who_was_refused_in_a_part_of_an_email_whose_rest_waits_is_written_to_again(
    shop: Shop,
) -> None:
    judged(shop, *enqueued(shop, 1))
    email = to_three(shop)
    (made,) = shop.claim()
    assert shop.start(made.token)
    shop.open(made.token, email)
    refused = (
        ("a@x.example", RecipientStatus.FAILED, BLOCKED),
        ("b@x.example", RecipientStatus.FAILED, UNKNOWN),
    )
    part = Outcome(status=Status.SENDING, reply=BLOCKED, recipients=refused, again=True)
    shop.record(made.token, [entry(email, part, Verdict.FAIL, phase=Phase.RCPT, several=True)])
    rest = Outcome(status=Status.PENDING, reply=Reply(code=0))
    shop.record(made.token, [entry(email, rest, Verdict.HALT, several=True)])
    assert taken_back(shop) == 2
    assert list(shop.recipients(email).values()) == ["pending", "failed", "pending"]
    assert charged(shop) == [("pending", 0)] * 2


@pytest.mark.long
def test_a_server_that_hangs_up_on_each_email_that_it_refuses_is_found_out(shop: Shop) -> None:
    for number in range(3):
        assert not reviewed(shop, 3)
        hung_up(shop, shop.enqueue(*(f"{name}@{number}.example" for name in "abc")).id)
    assert reviewed(shop, 3)


def test_who_was_halted_in_between_makes_no_row_longer_or_shorter(shop: Shop) -> None:
    judged(shop, *enqueued(shop, 2))
    hung_up(shop, to_three(shop), logged=Reply(code=421))
    assert not reviewed(shop, 3)
    judged(shop, shop.enqueue("last@y.example").id)
    assert reviewed(shop, 3)
