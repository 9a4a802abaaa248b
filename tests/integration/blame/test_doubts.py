"""A server that takes contents and gives no reply gets few emails: each of them is in doubt."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.blame import SILENCES
from outbox.domain.delivery.breaker_timing import BreakerState
from outbox.domain.delivery.transaction import Phase
from outbox.worker.batch.send_batch import send_batch
from tests.integration.blame.server import ClassServer, Habit, Seen, time_out
from tests.integration.worker.silence.test_silent_server import SILENT, write
from tests.support.servers.smtp.scripted import Step, reset
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import server

pytestmark = [
    pytest.mark.one_database("postgresql"),
    pytest.mark.databases("postgresql", "mariadb"),
]


def send_due(shop: Shop) -> None:
    """Send what is due, in the batches of one sweep."""
    for claim in shop.claim():
        send_batch(shop.runtime, claim.token)


def doubts(shop: Shop) -> int:
    return sum(row.unknown_count for row in shop.rows(shop.tables.email))


def states(shop: Shop) -> list[str]:
    return [row.state for row in shop.rows(shop.tables.breaker)]


@pytest.mark.parametrize("answer", [reset, time_out], ids=["drops", "says nothing"])
def test_a_server_that_leaves_each_email_in_doubt_gets_no_more_of_them(
    answer: Step, shops: Shops
) -> None:
    with ClassServer(Habit(phase=Phase.DOT, answer=answer)) as one:
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=1)
        write(shop, good=20)
        send_due(shop)
        assert one.refused == doubts(shop) == SILENCES
        assert states(shop) == [BreakerState.OPEN]
        assert {row.status for row in shop.rows(shop.tables.email)} == {"pending"}


def test_what_a_server_leaves_in_doubt_does_not_go_over_the_next_one_at_once(shops: Shops) -> None:
    with ClassServer(Habit(phase=Phase.DOT, answer=reset)) as one, ClassServer() as two:
        entries = [server("a", one.port), server("b", two.port, order=2)]
        shop = shops.open(OUTBOX_SERVERS=entries, OUTBOX_SLOTS=1)
        write(shop, good=20)
        send_due(shop)
        assert (one.refused, two.copies.total()) == (SILENCES, 20 - SILENCES)
        assert set(two.copies.values()) == {1}


def test_single_emails_in_doubt_are_counted_over_their_batches(shops: Shops) -> None:
    with ClassServer(Habit(phase=Phase.DOT, answer=reset)) as one:
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=1)
        for number in range(SILENCES):
            assert (states(shop), doubts(shop)) == ([], number)
            write(shop, good=1)
            send_due(shop)
        assert states(shop) == [BreakerState.OPEN]


def test_emails_that_are_in_doubt_for_themselves_stop_no_other(shops: Shops) -> None:
    with ClassServer(Habit(phase=Phase.DOT, answer=reset)) as one:
        every = iter(range(1000))

        def refuses(_: Seen) -> bool:
            return next(every) % 2 == 0

        one.refuses = refuses
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=1)
        write(shop, good=20)
        send_due(shop)
        assert (doubts(shop), one.copies.total()) == (10, 10)
        assert BreakerState.OPEN not in states(shop)


def test_what_is_unlike_an_email_in_doubt_is_sent_before_its_like(shops: Shops) -> None:
    with ClassServer(Habit(phase=Phase.DOT, answer=reset)) as one:
        one.refuses = lambda seen: seen.sender == SILENT
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=1)
        write(shop, bad=6, good=6)
        send_due(shop)
        assert one.copies.total() == 6
