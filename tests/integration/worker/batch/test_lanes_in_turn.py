"""Other lanes, and email that is less urgent, get their turn where slots or permits are scarce."""

from __future__ import annotations

import pytest

from outbox import Priority, Status
from outbox.domain.scheduling.claim_plan import AGED
from outbox.domain.scheduling.token_bucket import Rate
from outbox.store.control.rate_limits import take
from outbox.worker.batch.throttle import LOST, PATIENCE, Throttle
from outbox.worker.drain import drain
from tests.integration.store.queries.test_lanes import bulk, swept
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.steps.motion import Motion, server
from tests.support.shop.steps.pauses import stand_still

pytestmark = pytest.mark.each_database

BATCH = 10


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("is_capped", [False, True], ids=["one slot", "a cap of one"])
def test_an_old_backlog_that_waits_for_its_rate_leaves_other_lanes_their_turn(
    shops: Shops, catcher: Catcher, is_capped: bool
) -> None:
    only = [server("only", catcher.port, **({"connections": 1} if is_capped else {}))]
    rates = {"gmail.com": "100/s"}
    motion = Motion(
        shop=shops.open(
            OUTBOX_SERVERS=only,
            OUTBOX_SLOTS=4 if is_capped else 1,
            OUTBOX_BATCH=BATCH,
            OUTBOX_WINDOW=BATCH,
            OUTBOX_DOMAIN_RATES=rates,
        )
    )
    bulk(motion.shop, 4 * BATCH, "gmail.com")
    motion.shop.later(1.0)
    bulk(motion.shop, 2 * BATCH)
    lanes = list[str]()
    for _ in range(4):
        (made,) = motion.sweep()
        lanes.append(made.lane)
        assert motion.work()
    assert lanes == ["@gmail.com", "", "@gmail.com", ""]


@pytest.mark.long
def test_bulk_that_has_waited_long_gets_a_place_on_a_server_that_normal_email_fills(
    shops: Shops, catcher: Catcher
) -> None:
    only = [server("only", catcher.port, connections=1)]
    shop = shops.open(OUTBOX_SERVERS=only, OUTBOX_SLOTS=4, OUTBOX_BATCH=BATCH, OUTBOX_WINDOW=5)
    motion = Motion(shop=shop)
    bulk(shop, 40)
    with shop.session() as session:
        readers = [f"n{number}@x.example" for number in range(60)]
        for reader in readers:
            shop.outbox.enqueue(message(reader), session=session)
        session.commit()
    claimed = list[tuple[Priority, int]]()
    for round_ in range(5):
        if round_ == 1:
            shop.later(AGED + 1)
        (made,) = motion.sweep()
        claimed.append((made.priority, made.emails))
        assert motion.work()
    normal, window = (Priority.NORMAL, BATCH), (Priority.BULK, 5)
    assert claimed == [normal, window, normal, window, normal]


@pytest.fixture
def rated(shops: Shops) -> Shop:
    """A shop that may send two emails a second: four of them fill the rate."""
    return stand_still(shops.open(OUTBOX_RATE="2/s", OUTBOX_SLOTS=4))


@pytest.mark.matrix
@pytest.mark.parametrize("urgent", [4, 9], ids=["that ends", "without end"])
def test_one_window_beside_urgent_email_without_end_takes_its_permits_as_early(
    rated: Shop, urgent: int
) -> None:
    """The urgent batches are always a little late, and never as late as others have to be."""
    rated.enqueue("n@x.example")
    rated.later(1.0)
    (normal,) = swept(rated)
    mine = rated.start(normal.token)
    assert mine is not None
    for number in range(urgent):
        rated.enqueue(f"u{number}@x.example", priority=Priority.URGENT)
    rated.later(1.0)
    claims = swept(rated)
    assert sum(made.emails for made in claims) == 4
    for made in claims:
        rated.start(made.token)
    rate, late = Rate(2, 1), 0.02

    def pause(seconds: float) -> None:
        rated.later(seconds)
        assert take(rated.database, {"all": (rate, 1)}, margin=late) >= 0.0

    assert take(rated.database, {"all": (rate, 1)}) == 0.0
    has_permit = Throttle(rated.runtime, mine, pause=pause).permit(mine.emails)
    assert has_permit is (urgent > 4)
    assert LOST < PATIENCE
    assert rated.statuses()[0] == Status.CLAIMED


@pytest.mark.long
def test_a_drain_at_a_slow_rate_sends_old_bulk_before_the_last_of_the_normal_email(
    shops: Shops, catcher: Catcher
) -> None:
    """One process: while bulk waits for its permit, nothing but bulk is in flight."""
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_RATE="4/s", OUTBOX_SLOTS=4)
    bulk(shop, 1)
    for number in range(18):
        shop.enqueue(f"n{number}@x.example")
    shop.later(AGED + 1)
    assert drain(shop.runtime) >= 19
    order = [email.recipients[0].endswith("@x.example") for email in catcher.emails]
    assert order.count(True) == 18
    assert False in order[:-1], order
