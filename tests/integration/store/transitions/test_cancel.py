"""What a person or the app takes back, settles or sends again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import create_engine, select, update
from sqlalchemy.exc import OperationalError

from outbox import InvalidMessage, Status
from outbox.domain.delivery.outcome import Outcome, RecipientStatus
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.transitions.cancel import withdraw
from outbox.store.transitions.resolve import resolve
from outbox.store.transitions.retry import retry
from outbox.store.transitions.window import finish
from tests.support.shop.shop import WORKER, Shop, Shops, addresses, entry, message, newsletter, sent
from tests.support.shop.steps import many

pytestmark = pytest.mark.each_database


def cancel(shop: Shop, **which: object) -> int:
    with shop.session() as session:
        count = shop.outbox.cancel(session=session, **which)  # type: ignore[arg-type]
        session.commit()
    return count


@pytest.mark.databases("postgresql")
def test_to_withdraw_a_tag_reads_no_email_of_it_that_has_ended(shop: Shop) -> None:
    """Its statistics are of a moment at which none was waiting."""
    many.finish(shop.engine, 1, 5000)
    with shop.engine.begin() as connection:
        connection.execute(update(shop.tables.email).values(tag="receipts"))
        connection.exec_driver_sql("ANALYZE outbox_email")
    for address in addresses(3):
        shop.enqueue(address, tag="receipts")
    reading = many.Reading(shop.engine)
    assert reading.of(lambda: cancel(shop, tag="receipts"))["rows"] < 100
    assert shop.statuses().count("cancelled") == 3


def again(shop: Shop, *ids: int) -> int:
    return len(shop.database.run(lambda c: retry(c, shop.database, list(ids))))


def settle(shop: Shop, outcome: Status, *ids: int) -> int:
    return len(shop.database.run(lambda c: resolve(c, shop.database, list(ids), outcome)))


def partly(shop: Shop, **changes: RecipientStatus) -> int:
    """Bring an email for a and b to an end with these outcomes: failed, unknown or sent."""
    email = shop.enqueue("a@x.example", "b@x.example")
    made = shop.sending(email.id)
    reached = set(changes.values())
    status = Status.SENT if RecipientStatus.SENT in reached else Status.FAILED
    if RecipientStatus.UNKNOWN in reached:
        status = Status.UNKNOWN
    end = Outcome(
        status=status,
        reply=Reply(code=0),
        attempts_added=1,
        unknown_total=int(status is Status.UNKNOWN),
        recipients=tuple((f"{n}@x.example", s, Reply(code=0)) for n, s in changes.items()),
    )
    result = entry(email.id, end, Verdict.UNKNOWN, several=True)
    finish(shop.database, made.token, [result], worker=WORKER)
    assert shop.status(email.id) is status
    return email.id


@pytest.mark.each_driver
def test_emails_are_withdrawn_by_id_key_or_tag(shop: Shop) -> None:
    by_id, by_key = shop.enqueue(), shop.enqueue(key="order-1")
    tagged = [shop.enqueue(tag="news") for _ in range(2)]
    other = shop.enqueue(tag="News")
    assert cancel(shop, id=by_id.id) == 1
    assert cancel(shop, key="order-1") == 1
    assert cancel(shop, tag="news") == 2
    assert cancel(shop, tag="news") == cancel(shop, id=by_id.id) == cancel(shop, key="none") == 0
    for email in (by_id, by_key, *tagged):
        row = shop.email_row(email.id)
        assert (row.status, row.due_at, row.token) == (Status.CANCELLED, None, None)
        assert row.finished_at is not None
    assert shop.status(other.id) is Status.PENDING


@pytest.mark.parametrize("which", [{}, {"id": 1, "key": "x"}])
def test_exactly_one_of_id_key_and_tag_is_asked_for(shop: Shop, which: dict[str, object]) -> None:
    with pytest.raises(InvalidMessage, match="id: give exactly one"):
        cancel(shop, **which)
    with pytest.raises(TypeError, match="exactly one"):  # a bug of ours must not withdraw them all
        shop.database.run(lambda c: withdraw(c, shop.database, **which))  # type: ignore[arg-type]


@pytest.mark.long
def test_thousands_of_emails_are_withdrawn_at_once(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(2100), session=session, tag="news")
        session.commit()
    assert cancel(shop, tag="news") == 2100
    assert shop.outbox.counts("news") == {Status.CANCELLED: 2100}


def test_withdrawing_is_undone_by_the_transactions_rollback(shop: Shop) -> None:
    email = shop.enqueue()
    with shop.session() as session:
        assert shop.outbox.cancel(id=email.id, session=session) == 1
        session.rollback()
    assert shop.status(email.id) is Status.PENDING
    assert len(shop.claim()) == 1


def test_an_email_enqueued_in_the_same_transaction_can_be_withdrawn(shop: Shop) -> None:
    with shop.session() as session:
        email = shop.outbox.enqueue(message(), session=session)
        assert shop.outbox.cancel(id=email.id, session=session) == 1
        session.commit()
    assert shop.status(email.id) is Status.CANCELLED


def test_a_claimed_email_is_withdrawn_and_its_window_does_not_open(shop: Shop) -> None:
    email, other = shop.enqueue(), shop.enqueue()
    made = shop.started()
    assert cancel(shop, id=email.id) == 1
    assert shop.open(made.token, email.id, other.id) == {other.id}
    finish(shop.database, made.token, [sent(other.id)], worker=WORKER)
    assert shop.status(email.id) is Status.CANCELLED
    assert shop.status(other.id) is Status.SENT


def test_an_email_in_an_open_window_cannot_be_withdrawn(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.sending(email.id)
    assert cancel(shop, id=email.id) == 0
    assert (shop.email_row(email.id).status, shop.email_row(email.id).token) == (
        "sending",
        made.token,
    )


def test_a_finished_email_cannot_be_withdrawn(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.sending(email.id)
    shop.record(made.token, [sent(email.id)])
    assert cancel(shop, id=email.id) == 0
    assert shop.status(email.id) is Status.SENT


@pytest.mark.parametrize("claimed", [False, True])
def test_an_email_in_doubt_that_is_withdrawn_is_unknown_and_not_counted(
    shop: Shop, claimed: bool
) -> None:
    email, other = shop.enqueue(tag="t"), shop.enqueue(tag="t", send_at=None)
    made = shop.started()
    shop.open(made.token, email.id)
    shop.rescue()
    shop.later(86_400)
    if claimed:
        shop.claim()
    assert cancel(shop, tag="t") == 1
    assert shop.status(email.id) is Status.UNKNOWN
    assert shop.status(other.id) is Status.CANCELLED
    assert shop.email_row(email.id).token is None


def test_an_email_that_a_recipient_has_already_got_ends_sent_when_it_is_withdrawn(
    shop: Shop,
) -> None:
    email = shop.enqueue("a@x.example", "b@x.example")
    with shop.engine.begin() as connection:
        table = shop.tables.recipient
        connection.execute(update(table).where(table.c.position == 0).values(status="sent"))
    assert cancel(shop, id=email.id) == 0
    assert shop.status(email.id) is Status.SENT


@pytest.mark.long
@pytest.mark.each_driver
def test_a_withdrawal_and_a_claim_at_once_agree_on_every_email(shop: Shop) -> None:
    ids = [shop.enqueue(tag="t").id for _ in range(60)]
    barrier = Barrier(2)

    def withdrawing() -> int:
        barrier.wait(30)
        return sum(cancel(shop, id=email_id) for email_id in reversed(ids))

    def claiming() -> set[int]:
        barrier.wait(30)
        opened: set[int] = set()
        while claims := shop.claim(5):
            for made in claims:
                shop.start(made.token)
                opened |= shop.open(made.token, *ids)
        return opened

    with ThreadPoolExecutor(2) as pool:
        counted, opening = pool.submit(withdrawing), pool.submit(claiming)
        cancelled, opened = counted.result(), opening.result()
    statuses = {row.id: row.status for row in shop.rows(shop.tables.email)}
    assert {i for i, s in statuses.items() if s == "sending"} == opened
    assert [s for s in statuses.values() if s == "cancelled"] == ["cancelled"] * cancelled
    assert set(statuses.values()) <= {"sending", "cancelled"}


def test_a_failed_email_is_sent_again_with_fresh_counters(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.sending(email.id)
    end = Outcome(status=Status.FAILED, reply=Reply(code=550), attempts_added=3, crashes_added=2)
    shop.record(made.token, [entry(email.id, end, Verdict.FAIL)])
    assert again(shop, email.id) == 1
    row = shop.email_row(email.id)
    assert (row.status, row.attempts, row.crashes, row.unknown_count) == (Status.PENDING, 0, 0, 0)
    assert row.finished_at is None
    assert len(shop.claim()) == 1


def test_only_failed_and_unknown_emails_are_sent_again(shop: Shop) -> None:
    pending = shop.enqueue()
    cancelled = shop.enqueue()
    cancel(shop, id=cancelled.id)
    assert again(shop, pending.id, cancelled.id, 99) == 0
    assert shop.status(cancelled.id) is Status.CANCELLED


def test_a_retry_writes_to_nobody_again_who_has_the_email(shop: Shop) -> None:
    email_id = partly(shop, a=RecipientStatus.SENT, b=RecipientStatus.UNKNOWN)
    assert again(shop, email_id) == 1
    assert shop.recipients(email_id) == {"a@x.example": "sent", "b@x.example": "unknown"}
    (made,) = shop.claim()
    batch = shop.start(made.token)
    assert batch is not None
    assert batch.emails[0].envelope.recipients == ("b@x.example",)


def test_a_retry_of_an_email_that_is_not_stuck_leaves_its_recipients_alone(shop: Shop) -> None:
    done = partly(shop, a=RecipientStatus.SENT, b=RecipientStatus.FAILED)
    doubtful = shop.enqueue("a@x.example", "b@x.example")
    shop.lose(doubtful.id)
    assert again(shop, done, doubtful.id) == 0
    assert shop.recipients(done) == {"a@x.example": "sent", "b@x.example": "failed"}
    assert set(shop.recipients(doubtful.id).values()) == {"unknown"}


@pytest.mark.parametrize("outcome", [Status.SENT, Status.FAILED])
def test_a_person_settles_an_email_in_doubt_and_its_recipients(shop: Shop, outcome: Status) -> None:
    email_id = partly(shop, a=RecipientStatus.FAILED, b=RecipientStatus.UNKNOWN)
    assert settle(shop, outcome, email_id) == 1
    row = shop.email_row(email_id)
    assert (row.status, row.unknown_count, row.unknown_token) == (outcome, 0, None)
    assert shop.recipients(email_id) == {"a@x.example": "failed", "b@x.example": outcome.value}
    assert settle(shop, outcome, email_id) == 0


def test_only_emails_in_doubt_are_settled(shop: Shop) -> None:
    pending = shop.enqueue()
    assert settle(shop, Status.SENT, pending.id) == 0
    assert shop.status(pending.id) is Status.PENDING
    for wrong in (Status.PENDING, Status.CANCELLED):
        with pytest.raises(ValueError, match="sent or failed"):
            settle(shop, wrong, pending.id)


@pytest.mark.databases("mariadb")
def test_a_strict_snapshot_refuses_to_withdraw_what_has_changed_since(shops: Shops) -> None:
    """The page on databases tells of it: MariaDB has rolled back the whole transaction."""
    strict = {"init_command": "SET SESSION innodb_snapshot_isolation = ON"}
    shop = shops.open_on(create_engine(shops.url, connect_args=strict))
    email = shop.enqueue()
    with shop.session() as session:
        session.execute(select(shop.orders)).all()  # the snapshot
        shop.claim()
        with pytest.raises(OperationalError, match="1020"):
            shop.outbox.cancel(id=email.id, session=session)
        session.rollback()
        assert shop.outbox.cancel(id=email.id, session=session) == 1
        session.commit()
    assert shop.status(email.id) is Status.CANCELLED
