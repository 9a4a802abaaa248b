"""Rescue: what a lost worker held is judged by the rule, and never too early."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from outbox import Status
from outbox.domain.delivery.outcome import Outcome, RecipientStatus
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.control import lease
from outbox.store.control.counter import UNKNOWN
from outbox.store.schema.clock import utc
from outbox.store.transitions.rescue import RESCUED, rescue
from tests.support.shop.shop import LEASE, WORKER, Shop, Shops, entry, sent

pytestmark = pytest.mark.each_database


def judge(shop: Shop) -> int:
    return rescue(shop.database, shop.runtime.settings, random=lambda: 0.5).leases


def change(shop: Shop, email_id: int, **values: object) -> None:
    email = shop.tables.email
    with shop.engine.begin() as connection:
        connection.execute(update(email).where(email.c.id == email_id).values(**values))


def test_a_lease_that_holds_is_left_alone(shop: Shop) -> None:
    shop.enqueue()
    shop.started()
    shop.later(LEASE - 5)
    assert judge(shop) == 0
    assert shop.count(shop.tables.lease) == 1


def test_a_lease_that_holds_is_left_alone_before_its_task_has_started(shop: Shop) -> None:
    email = shop.enqueue()
    shop.claim()
    shop.later(LEASE - 5)
    assert judge(shop) == 0
    assert shop.status(email.id) is Status.CLAIMED
    assert shop.count(shop.tables.lease) == 1


def test_a_lease_that_never_started_is_given_back_uncharged_at_once(shop: Shop) -> None:
    email = shop.enqueue()
    shop.claim()
    shop.later(LEASE + 1)
    assert judge(shop) == 1
    row = shop.email_row(email.id)
    assert (row.status, row.token) == (Status.PENDING, None)
    assert (row.attempts, row.crashes, row.unknown_count) == (0, 0, 0)
    assert row.due_at == row.created_at
    assert shop.count(shop.tables.lease) == shop.count(shop.tables.attempt) == 0
    assert shop.counter(RESCUED) == 1


def test_a_started_lease_is_judged_one_lease_after_it_was_first_seen_expired(shop: Shop) -> None:
    shop.enqueue()
    made = shop.started()
    shop.later(1000 * LEASE)  # the database was away
    assert judge(shop) == 0
    shop.later(LEASE - 5)
    assert judge(shop) == 0
    assert lease.renew(shop.database, [made.token], lease_seconds=LEASE).renewed  # the worker lives
    shop.later(LEASE - 5)
    assert judge(shop) == 0
    shop.later(10)
    assert judge(shop) == 0  # seen expired for the first time again
    shop.later(LEASE + 1)
    assert judge(shop) == 1


def test_claimed_emails_of_a_lost_worker_are_charged_a_delivery_and_no_attempt(shop: Shop) -> None:
    ids = [shop.enqueue().id for _ in range(3)]
    shop.started()
    assert shop.rescue() == 1
    for email_id in ids:
        row = shop.email_row(email_id)
        assert (row.status, row.token) == (Status.PENDING, None)
        assert (row.attempts, row.crashes, row.unknown_count) == (0, 1, 0)
    assert shop.count(shop.tables.attempt) == 0
    assert shop.counter(UNKNOWN) == 0


def test_an_email_in_an_open_window_is_in_doubt_and_sent_again_after_a_backoff(shop: Shop) -> None:
    email, waiting = shop.enqueue(), shop.enqueue()
    made = shop.started()
    shop.open(made.token, email.id)
    assert shop.rescue() == 1
    row = shop.email_row(email.id)
    assert (row.status, row.token, row.unknown_token) == (Status.PENDING, None, made.token)
    assert (row.attempts, row.crashes, row.unknown_count) == (1, 1, 1)
    assert utc(row.due_at) - utc(shop.email_row(waiting.id).due_at) > timedelta(seconds=10)
    assert shop.email_row(waiting.id).unknown_count == 0
    assert shop.counter(UNKNOWN) == 1


def test_a_rescued_email_waits_as_the_settings_say(shops: Shops) -> None:
    shop = shops.open(OUTBOX_BACKOFF=(10_000.0,))
    email = shop.enqueue()
    shop.sending(email.id)
    shop.rescue()
    row = shop.email_row(email.id)
    with shop.engine.connect() as connection:
        now = utc(connection.execute(select(shop.database.now())).scalar_one())
    assert timedelta(seconds=4_000) < utc(row.due_at) - now <= timedelta(seconds=5_000)


def test_the_doubt_that_a_rescue_declares_is_in_the_attempt_log(shop: Shop) -> None:
    email = shop.enqueue()
    shop.lose(email.id)
    (log,) = shop.rows(shop.tables.attempt)
    assert (log.email_id, log.verdict, log.phase, log.code) == (email.id, "unknown", "dot", 0)
    assert (log.worker, log.enhanced) == (WORKER, "")
    assert log.finished_at - log.started_at >= timedelta(seconds=LEASE)
    assert "worker was lost" in log.reply


@pytest.mark.parametrize("where", ["mail", "setting"])
def test_an_email_in_doubt_under_hold_waits_for_a_person(shops: Shops, where: str) -> None:
    shop = shops.open(OUTBOX_ON_UNKNOWN="hold" if where == "setting" else "resend")
    email = shop.enqueue(on_unknown="hold" if where == "mail" else None)
    shop.lose(email.id)
    row = shop.email_row(email.id)
    assert (row.status, row.unknown_count, row.attempts, row.due_at) == (Status.UNKNOWN, 1, 1, None)
    assert row.finished_at is not None


def test_the_emails_own_policy_overrides_the_setting(shops: Shops) -> None:
    shop = shops.open(OUTBOX_ON_UNKNOWN="hold")
    email = shop.enqueue(on_unknown="resend")
    shop.lose(email.id)
    assert shop.status(email.id) is Status.PENDING


def test_the_third_doubt_is_the_last(shop: Shop) -> None:
    email = shop.enqueue()
    for unknown_count in (1, 2):
        shop.lose(email.id)
        assert (shop.email_row(email.id).unknown_count, shop.status(email.id)) == (
            unknown_count,
            Status.PENDING,
        )
    shop.lose(email.id)
    row = shop.email_row(email.id)
    assert (row.status, row.unknown_count, row.attempts, row.crashes) == (Status.UNKNOWN, 3, 3, 3)
    assert shop.claim() == []


def test_an_email_whose_workers_keep_dying_fails_at_its_bound_of_deliveries(shops: Shops) -> None:
    shop = shops.open(OUTBOX_MAX_CRASHES=3)
    email = shop.enqueue()
    for _ in range(2):
        shop.started()
        shop.rescue()
        assert shop.status(email.id) is Status.PENDING
    shop.started()
    shop.rescue()
    row = shop.email_row(email.id)
    assert (row.status, row.crashes, row.attempts, row.token) == (Status.FAILED, 3, 0, None)
    assert row.finished_at is not None


def test_an_email_in_doubt_at_its_bound_of_deliveries_is_unknown_and_not_failed(
    shops: Shops,
) -> None:
    shop = shops.open(OUTBOX_MAX_CRASHES=3)
    claimed, sending = shop.enqueue(), shop.enqueue()
    change(shop, claimed.id, unknown_count=1, crashes=2, attempts=1)
    change(shop, sending.id, crashes=2)
    for made in (*shop.claim(), *shop.claim()):  # each is claimed alone
        shop.start(made.token)
        shop.open(made.token, sending.id)
    shop.rescue()
    assert shop.status(claimed.id) is Status.UNKNOWN
    assert shop.status(sending.id) is Status.UNKNOWN


def test_a_healthy_email_does_not_fail_for_its_poisonous_neighbour(shops: Shops) -> None:
    shop = shops.open(OUTBOX_MAX_CRASHES=3)
    poison, healthy = shop.enqueue(), shop.enqueue()
    for _ in range(4):
        for made in shop.claim():
            ids = {row.id for row in shop.rows(shop.tables.email) if row.token == made.token}
            shop.start(made.token)
            if poison.id not in ids:  # its worker lives
                shop.open(made.token, *ids)
                shop.record(made.token, [sent(email_id) for email_id in ids])
        shop.rescue()
    assert shop.status(poison.id) is Status.FAILED
    assert shop.status(healthy.id) is Status.SENT


def test_only_recipients_without_an_outcome_are_in_doubt(shop: Shop) -> None:
    email = shop.enqueue("a@x.example", "b@x.example", "c@x.example")
    made = shop.sending(email.id)
    reply = Reply(code=250)
    partly = Outcome(
        status=Status.SENDING,
        reply=reply,
        recipients=(
            ("a@x.example", RecipientStatus.SENT, reply),
            ("b@x.example", RecipientStatus.FAILED, Reply(code=550)),
        ),
        again=True,
    )
    shop.record(made.token, [entry(email.id, partly, Verdict.SENT, several=True)])
    assert shop.rescue() == 1
    assert shop.recipients(email.id) == {
        "a@x.example": "sent",
        "b@x.example": "failed",
        "c@x.example": "unknown",
    }
    assert shop.email_row(email.id).unknown_count == 1

    shop.later(86_400)
    (again,) = shop.claim()
    batch = shop.start(again.token)
    assert batch is not None
    (mail,) = batch.emails
    assert mail.envelope.recipients == ("c@x.example",)
    assert mail.doubtful == {"c@x.example"}
    assert mail.settled == {"sent", "failed"}


def test_an_email_that_expired_with_its_lost_worker_ends_expired(shop: Shop) -> None:
    start = utc(shop.email_row(shop.enqueue(send_at=None).id).created_at)
    email = shop.enqueue(expires_at=start + timedelta(seconds=LEASE))
    shop.started()
    shop.rescue()
    row = shop.email_row(email.id)
    assert (row.status, row.crashes) == (Status.EXPIRED, 1)


@pytest.mark.long
def test_two_rescues_at_once_judge_a_lease_once(shop: Shop) -> None:
    ids = [shop.enqueue().id for _ in range(20)]
    made = shop.started()
    shop.open(made.token, *ids)
    shop.later(LEASE + 1)
    judge(shop)
    shop.later(LEASE + 1)
    with ThreadPoolExecutor(4) as pool:
        judged = sum(pool.map(lambda _: judge(shop), range(4)))
    assert judged == shop.counter(RESCUED) == 1
    assert {row.crashes for row in shop.rows(shop.tables.email)} == {1}
    assert shop.count(shop.tables.attempt) == shop.counter(UNKNOWN) == 20


@pytest.mark.databases("postgresql", "mariadb")
def test_a_host_that_vanished_within_a_renewal_holds_up_no_rescue(shop: Shop) -> None:
    first, second = shop.enqueue(), shop.enqueue()
    vanished, dead = (shop.claim(limit=1)[0] for _ in range(2))
    assert shop.start(vanished.token)
    assert shop.start(dead.token)
    table = shop.tables.lease
    renewal = update(table).where(table.c.token == vanished.token).values(worker=WORKER)
    with shop.engine.connect() as ghost, ThreadPoolExecutor(1) as pool:
        ghost.execute(renewal)  # and no COMMIT ever comes
        try:
            rescued = []
            for _ in range(2):
                shop.later(LEASE + 1)
                rescued.append(pool.submit(judge, shop).result(timeout=30))
        finally:
            ghost.rollback()
    assert rescued == [0, 1]
    assert [shop.status(mail.id) for mail in (first, second)] == [Status.CLAIMED, Status.PENDING]
