"""Leases and fences: a worker that lost its lease changes nothing in the table."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from outbox import Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.domain.fleet import ProcessId
from outbox.store.control import lease
from outbox.store.records import Claim
from outbox.store.schema.clock import utc
from outbox.store.transitions.release import suppress
from outbox.store.transitions.rescue import rescue
from outbox.store.transitions.retry import retry
from outbox.store.transitions.start import start
from outbox.store.transitions.window import LOST, finish
from outbox.worker.batch.send_batch import STALE, send_batch
from tests.support.shop.shop import LEASE, WORKER, Shop, entry, sent

pytestmark = pytest.mark.each_database


def snapshot(shop: Shop) -> list[object]:
    tables = (shop.tables.email, shop.tables.recipient, shop.tables.attempt, shop.tables.lease)
    return [shop.rows(table) for table in tables]


def record_in_vain(shop: Shop, stale: Claim, email_id: int) -> None:
    """Record a 250 under a lease that was lost: it changes nothing."""
    before = snapshot(shop)
    shop.record(stale.token, [sent(email_id)])
    assert snapshot(shop) == before


def renew(shop: Shop, token: UUID) -> bool:
    renewal = lease.renew(shop.database, [token], lease_seconds=LEASE)
    assert renewal.renewed | renewal.lost == {token}
    return bool(renewal.renewed)


def judge(shop: Shop) -> int:
    return rescue(shop.database, shop.runtime.settings, random=lambda: 0.5).leases


def test_a_lease_starts_once(shop: Shop) -> None:
    email = shop.enqueue()
    (made,) = shop.claim()
    batch = shop.start(made.token)
    assert batch is not None
    assert [mail.id for mail in batch.emails] == [email.id]
    before = snapshot(shop)
    assert shop.start(made.token) is None
    assert shop.start(uuid4()) is None
    assert snapshot(shop) == before


def test_a_start_that_is_asked_for_again_finds_its_own_lease_and_no_other(shop: Shop) -> None:
    shop.enqueue()
    (made,) = shop.claim()
    ours, other = ProcessId("boot", 7, 1), ProcessId("boot", 7, 2)

    def again(process: ProcessId | None) -> bool:
        term, token = LEASE, made.token
        batch = start(
            shop.database, token, lease_seconds=term, worker=WORKER, process=process, again=True
        )
        return batch is not None

    assert again(ours), "its first try did not reach the table"
    before = snapshot(shop)
    assert not again(other)
    assert not again(None)
    assert snapshot(shop) == before
    shop.later(LEASE + 1)
    assert again(ours)
    assert renew(shop, made.token)


def test_a_started_lease_names_its_worker_and_runs_from_its_start(shop: Shop) -> None:
    shop.enqueue()
    (made,) = shop.claim()
    shop.later(20)
    shop.start(made.token)
    (row,) = shop.rows(shop.tables.lease)
    assert row.worker == WORKER
    assert row.expires_at - row.started_at >= timedelta(seconds=LEASE - 1)


def test_a_task_that_comes_twice_changes_nothing_and_is_counted(shop: Shop) -> None:
    shop.enqueue()
    made = shop.started()
    before = snapshot(shop)
    assert not send_batch(shop.runtime, made.token).is_worth_a_sweep
    assert not send_batch(shop.runtime, uuid4()).is_worth_a_sweep
    assert snapshot(shop) == before
    assert shop.counter(STALE) == 2


def test_renewing_extends_the_lease_and_clears_the_suspicion(shop: Shop) -> None:
    shop.enqueue()
    made = shop.started()
    shop.later(LEASE + 1)
    assert judge(shop) == 0
    (suspected,) = shop.rows(shop.tables.lease)
    assert suspected.suspected_at is not None
    assert renew(shop, made.token)
    (renewed,) = shop.rows(shop.tables.lease)
    assert renewed.suspected_at is None
    assert renewed.expires_at - suspected.expires_at >= timedelta(seconds=LEASE)
    shop.later(LEASE - 5)
    assert judge(shop) == 0


def test_a_lease_that_is_gone_cannot_be_renewed(shop: Shop) -> None:
    shop.enqueue()
    made = shop.started()
    assert shop.rescue() == 1
    assert not renew(shop, made.token)
    assert not renew(shop, uuid4())
    assert shop.count(shop.tables.lease) == 0


def test_a_stale_worker_opens_no_window(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.started()
    shop.rescue()
    before = snapshot(shop)
    assert shop.open(made.token, email.id) == frozenset()
    assert snapshot(shop) == before


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (Status.FAILED, Verdict.FAIL),
        (Status.PENDING, Verdict.RETRY),
        (Status.UNKNOWN, Verdict.UNKNOWN),
        (Status.PENDING, Verdict.HALT),
        (Status.SENDING, Verdict.SENT),
    ],
)
def test_a_stale_workers_result_changes_nothing_and_is_counted(
    shop: Shop, status: Status, verdict: Verdict
) -> None:
    email = shop.enqueue()
    made = shop.lose(email.id)
    before = snapshot(shop)
    end = Outcome(status=status, reply=Reply(code=550), attempts_added=1, delay=5.0)
    shop.record(made.token, [entry(email.id, end, verdict)])
    assert snapshot(shop) == before
    assert shop.counter(LOST) == 1
    result = [entry(email.id, end, verdict)]
    assert finish(shop.database, made.token, result, worker=WORKER).lost == {email.id}
    assert snapshot(shop) == before
    assert shop.counter(LOST) == 2


def test_a_stale_workers_250_changes_nothing_of_an_email_never_in_doubt(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.started()
    shop.rescue()
    record_in_vain(shop, made, email.id)
    assert shop.counter(LOST) == 1


def test_a_late_250_resolves_the_doubt_of_a_rescued_email(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.lose(email.id)
    assert shop.email_row(email.id).unknown_count == 1
    shop.record(made.token, [sent(email.id)])
    row = shop.email_row(email.id)
    assert (row.status, row.unknown_count, row.due_at) == (Status.SENT, 0, None)
    assert row.finished_at is not None
    assert shop.counter(LOST) == 1
    assert [log.verdict for log in shop.rows(shop.tables.attempt)] == ["unknown", "sent"]


def test_a_late_250_resolves_an_unknown_email(shop: Shop) -> None:
    email = shop.enqueue(on_unknown="hold")
    made = shop.lose(email.id)
    assert shop.status(email.id) is Status.UNKNOWN
    shop.record(made.token, [sent(email.id)])
    assert shop.status(email.id) is Status.SENT


def test_a_late_250_after_the_next_claim_changes_nothing(shop: Shop) -> None:
    email = shop.enqueue()
    first = shop.lose(email.id)
    second = shop.started()
    record_in_vain(shop, first, email.id)
    shop.open(second.token, email.id)
    record_in_vain(shop, first, email.id)
    assert shop.counter(LOST) == 2


def test_a_late_250_after_a_claim_that_was_given_back_changes_nothing(shop: Shop) -> None:
    email = shop.enqueue()
    first = shop.lose(email.id)
    shop.claim()
    shop.rescue()
    assert shop.status(email.id) is Status.PENDING
    record_in_vain(shop, first, email.id)


def test_a_late_250_of_the_first_of_two_lost_workers_changes_nothing(shop: Shop) -> None:
    email = shop.enqueue()
    first = shop.lose(email.id)
    shop.lose(email.id)
    record_in_vain(shop, first, email.id)


def test_a_late_250_after_a_persons_retry_changes_nothing(shop: Shop) -> None:
    email = shop.enqueue(on_unknown="hold")
    made = shop.lose(email.id)
    assert len(shop.database.run(lambda c: retry(c, shop.database, [email.id]))) == 1
    shop.record(made.token, [sent(email.id)])
    assert shop.status(email.id) is Status.PENDING


def test_a_stale_worker_suppresses_nobody(shop: Shop) -> None:
    email = shop.enqueue("a@x.example", "b@x.example")
    made = shop.started()
    shop.rescue()
    before = snapshot(shop)
    shop.database.run(lambda c: suppress(c, shop.database, made.token, [email.id]))
    assert snapshot(shop) == before


def test_a_stale_worker_gives_nothing_back(shop: Shop) -> None:
    email = shop.enqueue()
    stale = shop.started()
    shop.rescue()
    now = shop.started()
    before = snapshot(shop)
    finish(shop.database, stale.token, [], worker=WORKER)
    assert snapshot(shop) == before
    assert shop.email_row(email.id).token == now.token


def test_one_lost_email_of_a_window_does_not_keep_the_others_from_their_record(shop: Shop) -> None:
    first, lost, third = (shop.enqueue().id for _ in range(3))
    made = shop.started()
    shop.open(made.token, first)
    assert shop.record(made.token, [sent(first), sent(lost)], [third]) == {third}
    assert shop.status(first) is Status.SENT
    assert [shop.status(lost), shop.status(third)] == [Status.CLAIMED, Status.SENDING]
    assert shop.counter(LOST) == 1


def test_a_record_that_is_made_again_after_a_lost_reply_changes_nothing_more(shop: Shop) -> None:
    email, other = shop.enqueue(), shop.enqueue()
    made = shop.started()
    shop.open(made.token, email.id)
    assert shop.record(made.token, [sent(email.id)], [other.id]) == {other.id}
    before = snapshot(shop)
    assert shop.record(made.token, [sent(email.id)], [other.id]) == {other.id}
    assert snapshot(shop) == before


def test_a_window_opens_for_no_email_of_another_claim(shop: Shop) -> None:
    mine = shop.enqueue()
    made = shop.started()
    shop.later(1)
    other = shop.enqueue()
    shop.started()
    assert shop.open(made.token, mine.id, other.id) == {mine.id}
    assert shop.status(other.id) is Status.CLAIMED


def test_an_email_that_expired_while_claimed_is_not_opened_and_ends_expired(shop: Shop) -> None:
    first = shop.enqueue()
    limit = utc(shop.email_row(first.id).created_at) + timedelta(seconds=100)
    email = shop.enqueue(expires_at=limit)
    made = shop.started()
    shop.later(101)
    assert shop.open(made.token, first.id, email.id) == {first.id}
    finish(shop.database, made.token, [sent(first.id)], worker=WORKER)
    assert shop.status(email.id) is Status.EXPIRED
    assert shop.email_row(email.id).token is None


def test_finishing_ends_the_lease_and_gives_back_what_is_left_in_its_place(shop: Shop) -> None:
    ids = [shop.enqueue().id for _ in range(3)]
    before = {row.id: row.due_at for row in shop.rows(shop.tables.email)}
    made = shop.started()
    shop.open(made.token, ids[0])
    finish(shop.database, made.token, [sent(ids[0])], worker=WORKER)
    rows = shop.rows(shop.tables.email)
    assert [row.status for row in rows] == [Status.SENT, Status.PENDING, Status.PENDING]
    assert [(row.attempts, row.crashes) for row in rows[1:]] == [(0, 0), (0, 0)]
    assert all(row.due_at == row.created_at for row in rows[1:])
    assert all(abs((row.due_at - before[row.id]).total_seconds()) < 1 for row in rows[1:])
    assert shop.count(shop.tables.lease) == 0
