"""Results that come late, or twice: what is true of them is written, and counted once."""

from __future__ import annotations

import pytest

from outbox import Status
from outbox.domain.delivery.outcome import Outcome, RecipientStatus
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.control.counter import UNKNOWN
from outbox.store.records import EmailResult
from outbox.store.transitions.window import LOST, advance, advance_in_steps, finish
from tests.support.shop.shop import WORKER, Shop, entry, sent

pytestmark = pytest.mark.each_database

TWO = ("a@x.example", "b@x.example")
DONE, REFUSED = Reply(code=250, enhanced="2.0.0", text="queued"), Reply(code=550, text="no such")


def several(email_id: int, a: RecipientStatus, b: RecipientStatus, status: Status) -> EmailResult:
    """Return the result of a transaction whose content the server took for somebody."""
    recipients = tuple(
        (address, fate, DONE if fate is RecipientStatus.SENT else REFUSED)
        for address, fate in zip(TWO, (a, b), strict=True)
    )
    end = Outcome(
        status=status,
        reply=DONE,
        attempts_added=int(status is not Status.SENDING),
        delay=30.0 if status is Status.PENDING else 0.0,
        recipients=recipients,
        again=status is Status.SENDING,
    )
    return entry(email_id, end, Verdict.SENT, several=True)


@pytest.mark.matrix
@pytest.mark.parametrize("policy", ["resend", "hold"])
@pytest.mark.parametrize("other", [RecipientStatus.SENT, RecipientStatus.FAILED])
def test_a_late_250_for_several_recipients_settles_the_doubt_of_each(
    shop: Shop, policy: str, other: RecipientStatus
) -> None:
    email = shop.enqueue(*TWO, on_unknown=policy)
    made = shop.lose(email.id)
    assert set(shop.recipients(email.id).values()) == {"unknown"}
    shop.record(made.token, [several(email.id, RecipientStatus.SENT, other, Status.SENT)])
    row = shop.email_row(email.id)
    assert (row.status, row.unknown_count, row.unknown_token, row.due_at) == (
        Status.SENT,
        0,
        None,
        None,
    )
    assert row.finished_at is not None
    assert shop.recipients(email.id) == {TWO[0]: "sent", TWO[1]: other.value}
    assert [r.code for r in shop.rows(shop.tables.recipient)] == [
        250,
        250 if other == "sent" else 550,
    ]
    assert [log.verdict for log in shop.rows(shop.tables.attempt)] == ["unknown", "sent"]
    assert shop.counter(LOST) == 1


def test_a_late_250_is_not_taken_for_the_one_that_the_log_has_of_the_same_moment(
    shop: Shop,
) -> None:
    """An email over two SMTP transactions: the first was recorded, the second was too late."""
    email = shop.enqueue(*TWO)
    made = shop.sending(email.id)
    first = several(email.id, RecipientStatus.SENT, RecipientStatus.PENDING, Status.SENDING)
    shop.record(made.token, [first])
    shop.rescue()
    assert shop.recipients(email.id) == {TWO[0]: "sent", TWO[1]: "unknown"}
    second = several(email.id, RecipientStatus.SENT, RecipientStatus.SENT, Status.SENT)
    assert second.started_at == first.started_at
    shop.record(made.token, [second])
    assert shop.status(email.id) is Status.SENT
    assert set(shop.recipients(email.id).values()) == {"sent"}


@pytest.mark.parametrize("status", [Status.PENDING, Status.SENDING])
def test_a_late_250_for_one_of_several_leaves_the_other_in_doubt(
    shop: Shop, status: Status
) -> None:
    """The other was put off, or had to wait for a transaction of which nothing is known."""
    email = shop.enqueue(*TWO)
    made = shop.lose(email.id)
    late = several(email.id, RecipientStatus.SENT, RecipientStatus.PENDING, status)
    shop.record(made.token, [late])
    assert shop.recipients(email.id) == {TWO[0]: "sent", TWO[1]: "unknown"}
    assert (shop.status(email.id), shop.email_row(email.id).unknown_count) == (Status.PENDING, 1)
    (again,) = shop.claim()
    batch = shop.start(again.token)
    assert batch is not None
    assert batch.emails[0].envelope.recipients == TWO[1:]


def test_a_late_250_for_several_after_the_next_claim_changes_nothing(shop: Shop) -> None:
    email = shop.enqueue(*TWO)
    made = shop.lose(email.id)
    shop.started()
    late = several(email.id, RecipientStatus.SENT, RecipientStatus.SENT, Status.SENT)
    shop.record(made.token, [late])
    assert shop.status(email.id) is Status.CLAIMED
    assert set(shop.recipients(email.id).values()) == {"unknown"}


def test_late_refusals_alone_settle_nothing(shop: Shop) -> None:
    email = shop.enqueue(*TWO)
    made = shop.lose(email.id)
    fates = (RecipientStatus.FAILED, RecipientStatus.FAILED)
    shop.record(made.token, [several(email.id, *fates, Status.FAILED)])
    assert set(shop.recipients(email.id).values()) == {"unknown"}


def test_a_late_250_of_a_withdrawn_email_is_written_too(shop: Shop) -> None:
    email = shop.enqueue(*TWO, tag="t")
    made = shop.lose(email.id)
    with shop.session() as session:
        assert shop.outbox.cancel(tag="t", session=session) == 0
        session.commit()
    assert shop.status(email.id) is Status.UNKNOWN
    late = several(email.id, RecipientStatus.SENT, RecipientStatus.SENT, Status.SENT)
    shop.record(made.token, [late])
    assert shop.status(email.id) is Status.SENT
    assert set(shop.recipients(email.id).values()) == {"sent"}


KINDS = {
    "sent": (Status.SENT, Verdict.SENT),
    "retry": (Status.PENDING, Verdict.RETRY),
    "fail": (Status.FAILED, Verdict.FAIL),
    "unknown": (Status.UNKNOWN, Verdict.UNKNOWN),
    "halt": (Status.PENDING, Verdict.HALT),
    "more recipients": (Status.SENDING, Verdict.SENT),
}


@pytest.mark.matrix
@pytest.mark.parametrize("write", ["advance", "in steps", "finish"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_is_written_again_after_a_lost_reply_is_no_lost_lease(
    shop: Shop, kind: str, write: str
) -> None:
    status, verdict = KINDS[kind]
    email = shop.enqueue()
    made = shop.sending(email.id)
    end = Outcome(
        status=status,
        reply=DONE,
        attempts_added=int(verdict is not Verdict.HALT and status is not Status.SENDING),
        delay=30.0,
        unknown_total=int(verdict is Verdict.UNKNOWN),
        again=status is Status.SENDING,
    )
    results = [entry(email.id, end, verdict, several=end.again)]

    def record() -> None:
        if write == "finish":
            finish(shop.database, made.token, results, worker=WORKER)
        elif write == "in steps":
            advance_in_steps(shop.database, made.token, results, [], worker=WORKER)
        else:
            shop.record(made.token, results)

    record()
    before = shop.email_row(email.id)
    record()
    after = shop.email_row(email.id)
    assert (after.status, after.attempts, after.unknown_count) == (
        before.status,
        before.attempts,
        before.unknown_count,
    )
    assert shop.counter(LOST) == 0
    assert shop.counter(UNKNOWN) == int(verdict is Verdict.UNKNOWN)
    assert len(shop.rows(shop.tables.attempt)) == int(verdict is not Verdict.HALT)


def test_a_late_250_that_is_written_again_is_counted_once(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.lose(email.id)
    for _ in range(2):
        shop.record(made.token, [sent(email.id)])
    assert shop.counter(LOST) == 1
    assert len(shop.rows(shop.tables.attempt)) == 2


def test_a_lease_that_is_lost_between_two_writes_is_counted(shop: Shop) -> None:
    first, second = shop.enqueue(), shop.enqueue()
    made = shop.started()
    shop.open(made.token, first.id, second.id)
    shop.record(made.token, [sent(first.id)])
    shop.rescue()
    shop.record(made.token, [sent(first.id), sent(second.id)])
    assert shop.counter(LOST) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("write", ["finish", "advance", "in steps"])
def test_an_unknown_end_is_counted_beside_a_result_that_was_lost(shop: Shop, write: str) -> None:
    first, second = shop.enqueue(), shop.enqueue()
    made = shop.started()
    shop.open(made.token, first.id)
    end = Outcome(status=Status.PENDING, reply=DONE, attempts_added=1, delay=30.0, unknown_total=1)
    results = [entry(first.id, end, Verdict.UNKNOWN), sent(second.id)]  # never opened: not theirs
    if write == "finish":
        progress = finish(shop.database, made.token, results, worker=WORKER)
    else:
        step = advance_in_steps if write == "in steps" else advance
        progress = step(shop.database, made.token, results, [], worker=WORKER)
    assert progress.written == {first.id}
    assert progress.lost == {second.id}
    assert (shop.counter(UNKNOWN), shop.counter(LOST)) == (1, 1)
