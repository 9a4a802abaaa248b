"""The pace of a batch: permits over all workers, urgent email first, and no lasting wait."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any
from uuid import uuid4

import pytest

from outbox import Priority, Status
from outbox.domain.scheduling.token_bucket import MARGIN, SLACK, Rate
from outbox.store.control.rate_limits import take
from outbox.store.records import ClaimedEmail
from outbox.worker.batch.throttle import LOST, PATIENCE, REST, Throttle, return_relaned
from outbox.worker.process import shutdown
from outbox.worker.sweep import sweep
from outbox.worker.together.calm import ASK_EVERY
from tests.integration.worker.batch.started import batch, statements
from tests.support.shop.shop import LEASE, Shop, Shops, addresses, newsletter
from tests.support.shop.steps.claims import claim_batch
from tests.support.shop.steps.pauses import Pauses, Together, stand_still
from tests.support.shop.watching.lag import lag

pytestmark = pytest.mark.one_database("mariadb")

HOURLY = Rate(1, 3600)


@pytest.fixture
def hourly(shops: Shops) -> Shop:
    """A shop that may send one email an hour."""
    return shops.open(OUTBOX_RATE="1/h")


def test_without_rates_a_window_is_the_setting_s_and_costs_no_statement(shop: Shop) -> None:
    made = batch(shop, emails=3)
    pace = Throttle(shop.runtime, made)
    assert pace.window_limit == inf
    assert statements(shop, lambda: pace.permit(made.emails)) == 0
    assert statements(shop, lambda: return_relaned(shop.runtime, uuid4(), made)) == 0


def test_a_window_of_a_slow_lane_is_small(shops: Shops) -> None:
    shop = shops.open(OUTBOX_RATE="20/s")
    assert Throttle(shop.runtime, batch(shop)).window_limit == 4


def test_every_recipient_costs_a_permit(shops: Shops) -> None:
    shop = shops.open(OUTBOX_RATE="500/min")
    made = batch(shop, *(f"r{n}@x.example" for n in range(100)))
    assert Throttle(shop.runtime, made).permit(made.emails)
    assert 12 - SLACK - 9 < lag(shop, "all") <= 12 - SLACK


def test_a_short_wait_is_waited_after_the_results_so_far_are_recorded(hourly: Shop) -> None:
    made, pauses, order = batch(hourly), Pauses(hourly), list[str]()

    def pause(seconds: float) -> None:
        order.append("wait")
        pauses(seconds)

    pace = Throttle(hourly.runtime, made, pause=pause)
    assert pace.permit(made.emails, before_wait=lambda: order.append("record"))
    assert order == []
    hourly.later(3600 - SLACK - 1.0)
    assert pace.permit(made.emails, before_wait=lambda: order.append("record"))
    assert order[:2] == ["record", "wait"]
    assert order.count("record") == 1
    assert sum(pauses.made) <= 1.0 + MARGIN
    assert max(pauses.made) <= 0.25, "it looks up while it waits"


def test_a_long_wait_gives_the_rest_back_at_once(hourly: Shop) -> None:
    made, pauses = batch(hourly), Pauses(hourly)
    pace = Throttle(hourly.runtime, made, pause=pauses)
    assert pace.permit(made.emails)
    assert not pace.permit(made.emails, before_wait=lambda: pytest.fail("there is no wait"))
    assert pauses.made == []


def test_who_is_always_too_late_does_not_wait_for_ever(hourly: Shop) -> None:
    """Another takes each permit that comes: the wait is bounded as a whole."""
    made = batch(hourly)
    waited: list[float] = []

    def outrun(seconds: float) -> None:
        waited.append(seconds)
        hourly.later(seconds)
        take(hourly.database, {}, debts={"all": (Rate(1, 1), 1)})

    take(hourly.database, {"all": (Rate(1, 1), 1)})
    assert not Throttle(hourly.runtime, made, pause=outrun).permit(made.emails)
    assert 0 < sum(waited) <= PATIENCE


@pytest.mark.parametrize("has_urgent", [False, True])
def test_who_waits_long_looks_for_urgent_email_that_keeps_it_out_only_where_there_is_some(
    hourly: Shop, monkeypatch: pytest.MonkeyPatch, has_urgent: bool
) -> None:
    made, asked, clock = batch(hourly), list[float](), [0.0]
    if has_urgent:
        batch(hourly, priority=Priority.URGENT)
    stand_still(hourly)
    hourly.runtime.clock = lambda: clock[0]

    def keeps_out(*_: object) -> bool:
        asked.append(clock[0])
        return False

    monkeypatch.setattr("outbox.worker.batch.throttle.keeps_out", keeps_out)

    def pause(seconds: float) -> None:
        clock[0] += seconds
        hourly.later(seconds)

    pace = Throttle(hourly.runtime, made, pause=pause)
    clock[0] += ASK_EVERY
    take(hourly.database, {"all": (Rate(1, 1.5), 1)})
    assert pace.permit(made.emails)
    assert clock[0] > LOST + ASK_EVERY
    assert bool(asked) is has_urgent


@pytest.mark.parametrize("why", ["shutdown", "lease"])
def test_who_is_to_stop_does_not_wait(
    hourly: Shop, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    made = batch(hourly)
    take(hourly.database, {"all": (Rate(1, 1), 1)})
    if why == "shutdown":
        monkeypatch.setattr(shutdown, "_flag", b"\x01")
    pace = Throttle(
        hourly.runtime, made, holds=lambda: why != "lease", pause=lambda _: pytest.fail("a wait")
    )
    assert not pace.permit(made.emails)


def test_urgent_email_takes_before_anybody_else_can(hourly: Shop) -> None:
    urgent, normal = batch(hourly, priority=Priority.URGENT), batch(hourly)
    pause = Pauses(hourly)
    assert Throttle(hourly.runtime, normal).permit(normal.emails)
    hourly.later(3600 - SLACK - 1.0)
    waits = take(hourly.database, {"all": (HOURLY, 1)})
    hourly.later(waits + 0.001)
    assert Throttle(hourly.runtime, urgent, pause=pause).permit(urgent.emails)
    assert pause.made == []
    assert not Throttle(hourly.runtime, normal).permit(normal.emails)


@pytest.mark.long
def test_bulk_keeps_to_its_share_while_urgent_email_stirs(shops: Shops) -> None:
    shop = shops.open(OUTBOX_RATE="1/s", OUTBOX_BULK_SHARE=0.25)
    made, pauses = batch(shop, priority=Priority.BULK), Pauses(shop)
    stand_still(shop)
    clock = 0.0

    def permit() -> float:
        nonlocal clock
        clock += 1.0
        shop.runtime.clock = lambda: clock
        pauses.made.clear()
        pace = Throttle(shop.runtime, made, pause=pauses)
        while not pace.permit(made.emails):
            pauses(0.25)
        return sum(pauses.made)

    def seconds() -> float:
        return sum(permit() for _ in range(6))

    permit()
    assert 4.0 < seconds() < 7.0
    shop.enqueue(priority=Priority.URGENT)
    permit()
    assert 20.0 < seconds() < 28.0


@pytest.mark.long
def test_bulk_s_own_bucket_never_closes_it_for_long(shops: Shops) -> None:
    """Nobody claims by it: a long debt there would have a batch claimed and given back for ever."""
    shop = shops.open(OUTBOX_RATE="50/s")
    made = batch(shop, *(f"r{n}@x.example" for n in range(900)), priority=Priority.BULK)
    shop.enqueue(priority=Priority.URGENT)
    assert Throttle(shop.runtime, made).permit(made.emails)
    assert lag(shop, "all/bulk") <= 1.0 < PATIENCE < lag(shop, "all")


def test_emails_of_a_rate_that_was_set_later_go_back_into_its_lane(shops: Shops) -> None:
    before = shops.open()
    ids = [before.enqueue(to).id for to in ("a@x.example", "b@gmail.com", "c@x.example")]
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/h"})
    (made,) = shop.claim()
    started = shop.start(made.token)
    assert started is not None
    kept = return_relaned(shop.runtime, made.token, started)
    assert [mail.id for mail in kept.emails] == [ids[0], ids[2]]
    row = shop.email_row(ids[1])
    assert (row.status, row.lane, row.token) == (Status.PENDING, "@gmail.com", None)
    assert (row.attempts, row.crashes, row.due_at) == (0, 0, row.created_at)
    assert shop.open(made.token, *ids) == {ids[0], ids[2]}


def test_an_email_in_the_lane_of_a_higher_rate_rests_before_it_goes_on_in_its_own(
    shops: Shops,
) -> None:
    """An older version names its lane so; its workers must not pass it to and fro with ours."""
    rates = {"a.example": "100/s"}
    before = shops.open(OUTBOX_DOMAIN_RATES=rates)
    ids = [before.enqueue("x@a.example", "y@b.example").id, before.enqueue("z@a.example").id]
    shop = shops.open(OUTBOX_DOMAIN_RATES=rates | {"b.example": "1/s"})
    (made,) = claim_batch(shop.database, Priority.NORMAL, 9, lease_seconds=LEASE, lane="@a.example")
    started = shop.start(made.token)
    assert started is not None
    kept = return_relaned(shop.runtime, made.token, started)
    assert [mail.id for mail in kept.emails] == [ids[1]]
    row = shop.email_row(ids[0])
    assert (row.status, row.lane, row.attempts) == (Status.PENDING, "@b.example", 0)
    assert row.due_at > row.created_at
    shop.later(REST)
    (made,) = claim_batch(shop.database, Priority.NORMAL, 9, lease_seconds=LEASE, lane="@b.example")
    started = shop.start(made.token)
    assert started is not None
    assert return_relaned(shop.runtime, made.token, started) == started


def test_an_email_withdrawn_meanwhile_is_not_brought_back_by_its_lane(shops: Shops) -> None:
    email = shops.open().enqueue("b@gmail.com")
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/h"})
    (made,) = shop.claim()
    started = shop.start(made.token)
    assert started is not None
    with shop.session() as session:
        assert shop.outbox.cancel(id=email.id, session=session) == 1
        session.commit()
    assert return_relaned(shop.runtime, made.token, started).emails == ()
    assert shop.status(email.id) is Status.CANCELLED


@pytest.mark.long
def test_workers_together_keep_to_the_rate(shops: Shops) -> None:
    """Four take windows as fast as they get them, and get all that the rate allows."""
    shop = shops.open(OUTBOX_RATE="50/s")
    made = batch(shop, priority=Priority.NORMAL)
    window: tuple[ClaimedEmail, ...] = made.emails * 4
    pause, began = Together(shop, 4), time.monotonic()

    def work() -> None:
        try:
            pace = Throttle(shop.runtime, made, pause=pause)
            for _ in range(6):
                assert pace.permit(window, patience=inf)
        finally:
            pause.leave()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work) for _ in range(4)]:
            future.result()
    all_but_the_last = (23 * 4) / 50
    assert pause.moved + time.monotonic() - began >= all_but_the_last - SLACK
    assert pause.moved <= all_but_the_last + MARGIN + ASK_EVERY, "permits were left lying"


def test_a_batch_is_claimed_again_after_it_was_given_back_only_when_its_lane_opens(
    hourly: Shop,
) -> None:
    with hourly.session() as session:
        hourly.outbox.enqueue_many(newsletter(), addresses(5), session=session)
        session.commit()
    first: list[Any] = []
    assert sweep(hourly.runtime, first.append) == 1
    started = hourly.start(first[0].token)
    assert started is not None
    assert Throttle(hourly.runtime, started).permit(started.emails)
    assert sweep(hourly.runtime, first.append) == 0
    hourly.later(3600)
    assert sweep(hourly.runtime, first.append) == 1
