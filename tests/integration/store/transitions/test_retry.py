"""A person sends an email in doubt again: the doubt stays, whatever becomes of the next try."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from outbox import Reason, Status, Unchanged
from outbox.domain.delivery.outcome import MAX_UNKNOWN, decide_outcome
from outbox.domain.delivery.transaction import Phase, RecipientResult, Reply, Transaction, Verdict
from outbox.store.control import suppression
from outbox.store.transitions.expire import expire
from outbox.store.transitions.release import suppress
from outbox.store.transitions.retry import retry
from tests.support.shop.facts import facts
from tests.support.shop.shell import stuck
from tests.support.shop.shop import Shop, entry

pytestmark = pytest.mark.each_database

ONE, TWO = ("a@x.example",), ("a@x.example", "b@x.example")
End = Callable[[Shop, int], None]


def in_doubt(shop: Shop, *to: str) -> int:
    """Bring an email into a doubt that a person has to settle; the person sends it again."""
    later = datetime.now(UTC) + timedelta(days=30)
    email = shop.enqueue(*to, on_unknown="hold", expires_at=later)
    shop.lose(email.id)
    assert shop.status(email.id) is Status.UNKNOWN
    assert len(shop.database.run(lambda c: retry(c, shop.database, [email.id]))) == 1
    assert shop.status(email.id) is Status.PENDING
    return email.id


def judged(shop: Shop, verdict: Verdict, **changes: object) -> None:
    """Send what is due, to each recipient with this verdict."""
    (made,) = shop.claim()
    batch = shop.start(made.token)
    assert batch is not None
    (mail,) = batch.emails
    shop.open(made.token, mail.id)
    reply = Reply(code=550 if verdict is Verdict.FAIL else 450)
    results = tuple(
        RecipientResult(address=address, verdict=verdict, reply=reply)
        for address in mail.envelope.recipients
    )
    result = Transaction(verdict=verdict, phase=Phase.DOT, reply=reply, recipients=results)
    end = decide_outcome(facts(mail, **changes), result, random=lambda: 0.5)
    shop.record(made.token, [entry(mail.id, end, verdict, several=mail.several)])


def withdrawn(shop: Shop, email_id: int) -> None:
    with shop.session() as session:
        assert shop.outbox.cancel(id=email_id, session=session) == 0
        session.commit()


def withdrawn_when_claimed(shop: Shop, email_id: int) -> None:
    shop.started()
    withdrawn(shop, email_id)


def expired(shop: Shop, _: int) -> None:
    shop.later(40 * 86_400)
    assert expire(shop.database) == 1


def suppressed(shop: Shop, email_id: int) -> None:
    for address in TWO:
        shop.database.run(lambda c, a=address: suppression.suppress(c, shop.database, a, ""))  # type: ignore[misc]
    made = shop.started()
    shop.database.run(lambda c: suppress(c, shop.database, made.token, [email_id]))


def lost_again_and_again(shop: Shop, _: int) -> None:
    for _ in range(5):
        for made in shop.claim():
            shop.start(made.token)
            shop.rescue()


ENDS: dict[str, End] = {
    "withdrawn": withdrawn,
    "withdrawn when claimed": withdrawn_when_claimed,
    "expired": expired,
    "suppressed": suppressed,
    "refused": lambda shop, _: judged(shop, Verdict.FAIL),
    "put off too often": lambda shop, _: judged(shop, Verdict.RETRY, max_attempts=1),
    "dropped too often": lambda shop, _: judged(shop, Verdict.UNSENT, max_crashes=1),
    "its workers died too often": lost_again_and_again,
}


@pytest.mark.matrix
@pytest.mark.parametrize("to", [ONE, TWO], ids=["one", "several"])
@pytest.mark.parametrize("end", ENDS)
def test_an_email_in_doubt_that_a_person_sends_again_ends_unknown_where_it_is_not_taken(
    shop: Shop, end: str, to: tuple[str, ...]
) -> None:
    email_id = in_doubt(shop, *to)
    ENDS[end](shop, email_id)
    assert shop.status(email_id) is Status.UNKNOWN
    assert set(shop.recipients(email_id).values()) <= {"unknown"}
    told = shop.app.test_cli_runner().invoke(args=["outbox", "retry", str(email_id)]).output
    again = "1 email is pending again\n1 of them was unknown: a copy may have arrived"
    assert ("past its expires_at" if end == "expired" else again) in told


@pytest.mark.matrix
@pytest.mark.parametrize("to", [ONE, TWO], ids=["one", "several"])
def test_one_that_is_taken_ends_sent(shop: Shop, to: tuple[str, ...]) -> None:
    email_id = in_doubt(shop, *to)
    judged(shop, Verdict.SENT)
    row = shop.email_row(email_id)
    assert (row.status, row.unknown_count, row.attempts) == (Status.SENT, 0, 1)
    assert set(shop.recipients(email_id).values()) <= {"sent"}


@pytest.mark.long
def test_a_retry_makes_room_for_further_doubts(shop: Shop) -> None:
    """The third doubt is the last. A person's retry after it is sent, and may be in doubt again."""
    email = shop.enqueue()
    for _ in range(MAX_UNKNOWN):
        shop.lose(email.id)
    for _ in range(2):
        assert (shop.email_row(email.id).unknown_count, shop.status(email.id)) == (
            MAX_UNKNOWN,
            Status.UNKNOWN,
        )
        assert len(shop.database.run(lambda c: retry(c, shop.database, [email.id]))) == 1
        row = shop.email_row(email.id)
        assert (row.unknown_count, row.attempts, row.crashes) == (1, 0, 0)
        for unknown_count in (2, 3):
            assert shop.status(email.id) is Status.PENDING
            shop.lose(email.id)
            assert shop.email_row(email.id).unknown_count == unknown_count


def test_an_email_that_a_person_sends_again_has_its_whole_lifetime_before_it(shop: Shop) -> None:
    email = shop.enqueue()
    judged(shop, Verdict.RETRY)
    assert shop.email_row(email.id).waited > 0
    shop.later(86_400)
    judged(shop, Verdict.FAIL)
    assert len(shop.database.run(lambda c: retry(c, shop.database, [email.id]))) == 1
    assert shop.email_row(email.id).waited == 0


def test_a_failed_email_that_a_person_sends_again_is_in_no_doubt(shop: Shop) -> None:
    email = shop.enqueue()
    judged(shop, Verdict.FAIL)
    told = shop.app.test_cli_runner().invoke(args=["outbox", "retry", str(email.id)]).output
    assert "doubt" not in told
    assert (shop.status(email.id), shop.email_row(email.id).unknown_count) == (Status.PENDING, 0)


@pytest.mark.matrix
@pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN])
def test_an_email_whose_time_is_over_stays_where_a_person_sees_it(
    shop: Shop, status: Status
) -> None:
    """It would end without an attempt, as expired: no list of what needs a person has these."""
    soon = datetime.now(UTC) + timedelta(hours=1)
    over, bare, waits = (stuck(shop, status, expires_at=soon) for _ in range(3))
    endless = stuck(shop, status)
    assert list(shop.outbox.retry(waits).changed) == [waits]
    shop.later(7200)
    without_body(shop, bare)
    before = shop.email_row(over)
    done = shop.outbox.retry([over, bare, endless])
    assert done.changed == {endless: Status.PENDING}
    assert done.unchanged == (
        Unchanged(id=over, reason=Reason.EXPIRED, status=status),
        Unchanged(id=bare, reason=Reason.REDACTED, status=status),
    )
    assert (done.expired, done.redacted) == ((over,), (bare,))
    assert str(done.unchanged[0]) == "is past its expires_at; send it again as a new message"
    assert shop.outbox.retry(status=status).expired == (over,)
    assert shop.email_row(over) == before
    assert expire(shop.database) == 1, "the one that had begun to wait in its time"
    assert shop.email_row(shop.outbox.send_again(over).id).expires_at is None


def without_body(shop: Shop, email_id: int) -> None:
    email = shop.tables.email
    gone = sa.update(email).where(email.c.id == email_id)
    with shop.engine.begin() as connection:
        connection.execute(gone.values(redacted_at=shop.database.now()))


def test_whom_the_list_bars_no_lost_worker_brings_into_doubt(shop: Shop) -> None:
    email = shop.enqueue(*TWO)
    shop.database.run(lambda c: suppression.suppress(c, shop.database, TWO[1], ""))
    (made,) = shop.claim()
    batch = shop.start(made.token)
    assert batch is not None
    partly = {mail.id: mail.suppressed for mail in batch.emails}
    shop.database.run(lambda c: suppress(c, shop.database, made.token, [], partly))
    shop.open(made.token, email.id)
    shop.rescue()
    assert shop.recipients(email.id) == {TWO[0]: "unknown", TWO[1]: "suppressed"}
    shop.later(86_400)
    judged(shop, Verdict.SENT)
    assert shop.status(email.id) is Status.SENT


def test_an_email_of_which_one_is_refused_and_the_other_suppressed_has_failed(shop: Shop) -> None:
    """It is not so that every recipient is on the list."""
    email = shop.enqueue(*TWO)
    recipient = shop.tables.recipient
    with shop.engine.begin() as connection:
        first = recipient.c.address == TWO[0]
        connection.execute(sa.update(recipient).where(first).values(status="failed", code=550))
    shop.database.run(lambda c: suppression.suppress(c, shop.database, TWO[1], ""))
    made = shop.started()
    shop.database.run(lambda c: suppress(c, shop.database, made.token, [email.id]))
    assert shop.status(email.id) is Status.FAILED
    assert shop.recipients(email.id) == {TWO[0]: "failed", TWO[1]: "suppressed"}
