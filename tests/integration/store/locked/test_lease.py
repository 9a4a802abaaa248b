"""A host vanished in a rescue and holds the lease's row: the lease's own worker goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from outbox import Status
from outbox.domain.fleet import ProcessId
from outbox.store.control import lease
from outbox.store.control.connection_caps import take_server
from outbox.store.transitions.start import start
from outbox.store.transitions.window import abandon, finish, record_last
from outbox.worker.batch.batch_end import BatchEnd
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.batch.sending import Sending
from tests.integration.store.leases import in_flight
from tests.integration.store.locks import (
    PATIENCE,
    SENT,
    UNTOUCHED,
    hold,
    in_time,
    lock_lease,
    vanished,
)
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import LEASE, WORKER, Shop, Shops, sent
from tests.support.shop.steps.motion import standing, write
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql", "mariadb")

GIVEN_BACK: dict[str, Callable[[Shop, UUID], object]] = {
    "finish": lambda shop, token: finish(shop.database, token, [], worker=WORKER),
    "abandon": lambda shop, token: abandon(shop.database, token),
}


@pytest.mark.long
@pytest.mark.parametrize("way", GIVEN_BACK)
def test_emails_go_back_although_their_lease_is_locked(shop: Shop, way: str) -> None:
    shop.enqueue()
    token = shop.started().token
    with vanished(shop, shop.tables.lease, token) as session:
        in_time(lambda: GIVEN_BACK[way](shop, token), session)
        assert standing(shop) == {UNTOUCHED: 1}
    assert shop.count(shop.tables.lease) == 1
    shop.rescue()
    assert shop.count(shop.tables.lease) == 0
    assert standing(shop) == {UNTOUCHED: 1}


def record(shop: Shop, token: UUID) -> None:
    shop.record(token, [sent(row.id) for row in shop.rows(shop.tables.email)])
    lease.drop(shop.database, token)


RECORDED: dict[str, Callable[[Shop, UUID, int], object]] = {
    "drop": lambda shop, token, _: record(shop, token),
    "finish": lambda shop, token, id_: finish(shop.database, token, [sent(id_)], worker=WORKER),
    "record_last": lambda shop, token, id_: record_last(
        shop.database, token, [sent(id_)], worker=WORKER
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("way", RECORDED)
def test_results_are_recorded_although_their_lease_is_locked(shop: Shop, way: str) -> None:
    email = shop.enqueue()
    token = shop.sending(email.id).token
    with vanished(shop, shop.tables.lease, token) as session:
        in_time(lambda: RECORDED[way](shop, token, email.id), session)
        assert standing(shop) == {SENT: 1}
    shop.rescue()
    assert shop.count(shop.tables.lease) == 0
    assert standing(shop) == {SENT: 1}


@pytest.mark.long
def test_a_task_does_not_wait_for_its_lease_and_its_emails_go_back(shop: Shop) -> None:
    shop.enqueue()
    (made,) = shop.claim()
    with vanished(shop, shop.tables.lease, made.token) as session:
        report = in_time(lambda: send_batch(shop.runtime, made.token), session)
        assert report.end is BatchEnd.STALE
        begin = partial(start, shop.database, made.token, lease_seconds=LEASE, worker=WORKER)
        again = partial(begin, process=ProcessId("boot", 7, 1), again=True)
        assert in_time(again, session) is None
        in_time(lambda: lease.decline(shop.database, made.token), session)
    shop.rescue()
    assert standing(shop) == {UNTOUCHED: 1}
    assert shop.count(shop.tables.lease) == 0


def test_a_lease_that_comes_free_while_it_is_looked_for_is_started(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.enqueue()
    (made,) = shop.claim()
    with vanished(shop, shop.tables.lease, made.token) as session:
        take = lease.lock

        def freed(*given: Any) -> bool:
            session.rollback()
            return take(*given)

        monkeypatch.setattr(lease, "lock", freed)
        begin = partial(start, shop.database, made.token, lease_seconds=LEASE, worker=WORKER)
        batch = in_time(begin, session)
    assert batch is not None
    assert len(batch.emails) == 1


USED: dict[str, Callable[[Shop, UUID], object]] = {
    "dropped": lambda shop, token: lease.drop(shop.database, token),
    "gone": lambda shop, token: rescued_and_dropped(shop, token),
    "given back": GIVEN_BACK["finish"],
}


def rescued_and_dropped(shop: Shop, token: UUID) -> None:
    shop.rescue()
    lease.drop(shop.database, token)


@pytest.mark.long
@pytest.mark.parametrize("use", USED)
def test_a_lease_that_was_locked_is_asked_for_patiently_again(shop: Shop, use: str) -> None:
    """It may be locked for hours at a server with a cap, and for a moment at the batch's end."""
    shop.enqueue()
    token = shop.started().token
    with vanished(shop, shop.tables.lease, token) as session:
        in_time(lambda: take_server(shop.database, token, ["a"], {"a": 1}), session)
        assert shop.database.avoided
    USED[use](shop, token)
    assert shop.database.avoided == {}


@pytest.mark.long
def test_a_batch_whose_lease_is_locked_takes_no_connection_of_a_capped_server(shop: Shop) -> None:
    shop.enqueue()
    token, caps = shop.started().token, {"a": 1}
    with vanished(shop, shop.tables.lease, token) as session:

        def taken(*names: str, current: str | None = None) -> str | None:
            return take_server(shop.database, token, names, caps, current=current)

        assert in_time(lambda: taken("a"), session) is None
        assert in_time(lambda: taken("a", "b"), session) is None
        assert in_time(lambda: taken("b", current="a"), session) is None
    assert take_server(shop.database, token, ["a"], caps) == "a"
    assert shop.database.read(lambda c: in_flight(c, shop.database)) == {"a": 1}


def test_a_renewal_of_the_same_process_leaves_no_lease_behind(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the row for a moment: whoever ends the batch then asks for the row again."""
    shop.enqueue()
    token, pauses = shop.started().token, list[float]()
    with vanished(shop, shop.tables.lease, token) as session:

        def release(seconds: float) -> None:
            pauses.append(seconds)
            session.rollback()

        monkeypatch.setattr("outbox.store.connection.shared_rows.time.sleep", release)
        in_time(lambda: finish(shop.database, token, [], worker=WORKER), session)
    assert pauses
    assert shop.count(shop.tables.lease) == 0


@pytest.mark.long
def test_a_batch_whose_lease_is_locked_at_its_end_ends_and_is_rescued_without_harm(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    write(shop, 3)
    token, run = shop.claim()[0].token, Sending.run
    with shop.session() as session:

        def held(sending: Sending) -> BatchEnd:
            end = run(sending)
            lock_lease(shop, session, token)
            return end

        monkeypatch.setattr(Sending, "run", held)
        report = in_time(lambda: send_batch(shop.runtime, token), session)
        assert (report.end, report.settled) == (BatchEnd.DONE, 3)
        session.rollback()
    shop.rescue()
    assert (standing(shop), len(catcher.emails)) == ({SENT: 3}, 3)
    assert shop.count(shop.tables.lease) == 0


@pytest.mark.long
def test_what_the_vanished_host_held_goes_back_uncharged_once_it_is_free(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the lease and its emails, as a rescue does. The worker has sent none of them."""
    shop = shops.open(MAIL_PORT=catcher.port)
    ids = write(shop, 3)
    token = shop.claim()[0].token
    with shop.session() as session:

        def stopped(_: Sending) -> BatchEnd:
            lock_lease(shop, session, token)
            hold(shop, session, *ids)
            return BatchEnd.LEASE_LOST

        monkeypatch.setattr(Sending, "run", stopped)
        in_time(lambda: send_batch(shop.runtime, token), session)
        assert shop.statuses() == [Status.CLAIMED] * 3
        session.rollback()
    wait_until(lambda: standing(shop) == {UNTOUCHED: 3}, timeout=PATIENCE, what="they go back")
    assert shop.count(shop.tables.lease) == 0
