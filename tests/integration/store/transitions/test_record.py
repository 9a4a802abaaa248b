"""Recording: what each verdict leaves in the email, its recipients and the attempt log."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from outbox import Status
from outbox.domain.delivery.outcome import Outcome, RecipientStatus, decide_outcome
from outbox.domain.delivery.transaction import Phase, RecipientResult, Reply, Transaction, Verdict
from outbox.smtp.connection import Connection
from outbox.store.control import suppression
from outbox.store.records import ClaimedEmail
from outbox.store.schema.clock import utc
from outbox.store.transitions.record import without_text
from outbox.store.transitions.window import LOST, finish
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.facts import facts
from tests.support.shop.shop import START, WORKER, Shop, Shops, entry, sent

pytestmark = [pytest.mark.each_database, pytest.mark.each_driver]

TWO = ("a@x.example", "b@x.example")


def attempt(shop: Shop, *verdicts: tuple[str, Verdict, int], **changes: object) -> ClaimedEmail:
    """Claim the only due email, play a transaction with it, and record what it comes to."""
    (made,) = shop.claim()
    batch = shop.start(made.token)
    assert batch is not None
    (mail,) = batch.emails
    shop.open(made.token, mail.id)
    results = tuple(
        RecipientResult(address=a, verdict=v, reply=Reply(code=c, text=f"{v} of it"))
        for a, v, c in verdicts
    )
    verdict = next((r.verdict for r in results if r.verdict is Verdict.SENT), results[0].verdict)
    result = Transaction(
        verdict=verdict, phase=Phase.DOT, reply=results[0].reply, recipients=results
    )
    end = decide_outcome(facts(mail, **changes), result, random=lambda: 0.5)
    finish(
        shop.database,
        made.token,
        [entry(mail.id, end, verdict, several=mail.several)],
        worker=WORKER,
    )
    return mail


def test_a_sent_email_is_recorded_with_its_attempt(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.sending(email.id)
    shop.record(made.token, [sent(email.id)])
    row = shop.email_row(email.id)
    assert (row.status, row.token, row.due_at, row.attempts) == (Status.SENT, None, None, 1)
    assert row.finished_at is not None
    (log,) = shop.rows(shop.tables.attempt)
    assert (log.email_id, log.verdict, log.phase) == (email.id, "sent", "dot")
    assert (log.code, log.enhanced, log.reply) == (250, "2.0.0", "queued as 1")
    assert (log.worker, log.server) == (WORKER, "mx.example:25")
    assert utc(log.started_at) == utc(log.finished_at) == START


def test_what_is_too_long_for_the_log_is_cut(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.sending(email.id)
    reply = Reply(code=550, enhanced="5.123.456.789", text="\u00e4" * 2000)
    end = Outcome(status=Status.FAILED, reply=reply, attempts_added=1)
    result = entry(email.id, end, Verdict.FAIL, server="s" * 300)
    shop.record(made.token, [result])
    assert shop.status(email.id) is Status.FAILED
    (log,) = shop.rows(shop.tables.attempt)
    assert (log.reply, log.enhanced) == ("\u00e4" * 500, "5.123.456.78")
    assert log.server == "s" * 255


def test_an_email_that_was_put_off_waits_for_its_backoff(shop: Shop) -> None:
    email = shop.enqueue()
    attempt(shop, ("a@customers.example", Verdict.RETRY, 451))
    row = shop.email_row(email.id)
    assert (row.status, row.attempts, row.crashes) == (Status.PENDING, 1, 0)
    assert shop.claim() == []
    shop.later(16)  # half of thirty seconds, and no more
    assert len(shop.claim()) == 1


def test_an_email_that_a_halt_gave_back_is_uncharged_and_in_no_log(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.sending(email.id)
    end = Outcome(status=Status.PENDING, reply=Reply(code=421))
    shop.record(made.token, [entry(email.id, end, Verdict.HALT)])
    row = shop.email_row(email.id)
    assert (row.status, row.attempts, row.crashes) == (Status.PENDING, 0, 0)
    assert row.due_at == row.created_at
    assert shop.count(shop.tables.attempt) == 0


def test_an_email_given_back_keeps_the_place_of_its_send_at(shop: Shop) -> None:
    moment = START - timedelta(days=3)
    email = shop.enqueue(send_at=moment)
    made = shop.sending(email.id)
    end = Outcome(status=Status.PENDING, reply=Reply(code=421))
    shop.record(made.token, [entry(email.id, end, Verdict.HALT)])
    assert utc(shop.email_row(email.id).due_at) == moment


def test_a_recipient_who_has_the_email_is_never_written_to_again(shop: Shop) -> None:
    email = shop.enqueue(*TWO)
    attempt(shop, ("a@x.example", Verdict.SENT, 250), ("b@x.example", Verdict.RETRY, 450))
    assert shop.recipients(email.id) == {"a@x.example": "sent", "b@x.example": "pending"}
    assert shop.status(email.id) is Status.PENDING

    shop.later(86_400)
    again = attempt(shop, ("b@x.example", Verdict.FAIL, 550))
    assert again.envelope.recipients == ("b@x.example",)
    assert shop.recipients(email.id) == {"a@x.example": "sent", "b@x.example": "failed"}
    row = shop.email_row(email.id)
    assert (row.status, row.attempts) == (Status.SENT, 2)


def test_the_last_of_several_recipients_is_recorded_too(shop: Shop) -> None:
    email = shop.enqueue(*TWO)
    attempt(shop, ("a@x.example", Verdict.FAIL, 550), ("b@x.example", Verdict.RETRY, 450))
    shop.later(86_400)
    attempt(shop, ("b@x.example", Verdict.SENT, 250))
    assert shop.recipients(email.id) == {"a@x.example": "failed", "b@x.example": "sent"}
    assert shop.status(email.id) is Status.SENT


def test_an_email_that_every_recipient_refused_has_failed_with_each_ones_reply(shop: Shop) -> None:
    email = shop.enqueue(*TWO)
    attempt(shop, ("a@x.example", Verdict.FAIL, 550), ("b@x.example", Verdict.FAIL, 551))
    assert shop.status(email.id) is Status.FAILED
    codes = [row.code for row in shop.rows(shop.tables.recipient)]
    assert codes == [550, 551]
    assert [row.reply for row in shop.rows(shop.tables.recipient)] == ["fail of it"] * 2


def test_an_email_that_is_put_off_too_often_has_failed(shop: Shop) -> None:
    email = shop.enqueue(*TWO)
    attempt(
        shop,
        ("a@x.example", Verdict.RETRY, 450),
        ("b@x.example", Verdict.RETRY, 450),
        max_attempts=1,
    )
    assert shop.status(email.id) is Status.FAILED
    assert set(shop.recipients(email.id).values()) == {"failed"}


def test_a_doubt_of_several_recipients_is_recorded_for_each(shop: Shop) -> None:
    email = shop.enqueue(*TWO)
    attempt(shop, ("a@x.example", Verdict.UNKNOWN, 0), ("b@x.example", Verdict.FAIL, 550))
    assert shop.recipients(email.id) == {"a@x.example": "unknown", "b@x.example": "failed"}
    assert (shop.status(email.id), shop.email_row(email.id).unknown_count) == (Status.PENDING, 1)
    shop.later(86_400)
    attempt(shop, ("a@x.example", Verdict.SENT, 250))
    assert shop.recipients(email.id) == {"a@x.example": "sent", "b@x.example": "failed"}
    assert (shop.status(email.id), shop.email_row(email.id).unknown_count) == (Status.SENT, 0)


def test_an_email_in_doubt_that_is_refused_afterwards_is_unknown_and_not_failed(shop: Shop) -> None:
    email = shop.enqueue()
    shop.lose(email.id)
    attempt(shop, ("a@customers.example", Verdict.FAIL, 550))
    assert shop.status(email.id) is Status.UNKNOWN


def test_results_of_every_kind_are_recorded_together(shop: Shop) -> None:
    emails = [shop.enqueue().id for _ in range(5)]
    made = shop.started()
    shop.open(made.token, *emails)
    reply = Reply(code=250)
    ends = [
        (Outcome(status=Status.SENT, reply=reply, attempts_added=1), Verdict.SENT),
        (Outcome(status=Status.FAILED, reply=reply, attempts_added=1), Verdict.FAIL),
        (Outcome(status=Status.PENDING, reply=reply, attempts_added=1, delay=60.0), Verdict.RETRY),
        (Outcome(status=Status.PENDING, reply=reply, crashes_added=1, delay=30.0), Verdict.UNSENT),
        (
            Outcome(status=Status.UNKNOWN, reply=reply, attempts_added=1, unknown_total=1),
            Verdict.UNKNOWN,
        ),
    ]
    results = [entry(i, end, verdict) for i, (end, verdict) in zip(emails, ends, strict=True)]
    shop.record(made.token, results)
    rows = shop.rows(shop.tables.email)
    assert [row.status for row in rows] == ["sent", "failed", "pending", "pending", "unknown"]
    assert [row.attempts for row in rows] == [1, 1, 1, 0, 1]
    assert [row.crashes for row in rows] == [0, 0, 0, 1, 0]
    assert [row.unknown_count for row in rows] == [0, 0, 0, 0, 1]
    assert shop.count(shop.tables.attempt) == 5
    assert shop.counter(LOST) == 0


def test_a_record_without_its_text_keeps_code_and_verdict() -> None:
    end = Outcome(
        status=Status.FAILED,
        reply=Reply(code=550, enhanced="5.1.1", text="no"),
        recipients=(("a@x.example", RecipientStatus.FAILED, Reply(code=550, text="no")),),
    )
    bare = without_text(entry(1, end, Verdict.FAIL)).outcome
    assert (bare.reply.code, bare.reply.text) == (550, "")
    assert bare.recipients[0][2].text == ""


@pytest.mark.matrix
@pytest.mark.parametrize("poison", ["bad \x00 text", "bad \ud800 text"])
@pytest.mark.parametrize("to", [("a@x.example",), TWO])
def test_a_reply_that_no_database_takes_is_recorded_without_its_text(
    shops: Shops,
    catcher: Catcher,
    monkeypatch: pytest.MonkeyPatch,
    poison: str,
    to: tuple[str, ...],
) -> None:
    """Replies are cleaned; here the cleaning is undone, and only that."""
    shop = shops.open(MAIL_PORT=catcher.port)
    first, email, last = shop.enqueue(), shop.enqueue(*to), shop.enqueue()
    real = Connection.send

    def poisoned(self: Connection, *args: object) -> Transaction:
        result = real(self, *args)  # type: ignore[arg-type]
        if "a@x.example" not in {r.address for r in result.recipients}:
            return result
        reply = replace(result.reply, text=poison)
        return replace(
            result,
            reply=reply,
            recipients=tuple(replace(r, reply=reply) for r in result.recipients),
        )

    monkeypatch.setattr(Connection, "send", poisoned)
    drain(shop.runtime)
    for sent_mail in (first, email, last):
        assert shop.status(sent_mail.id) is Status.SENT
    logs = {row.email_id: row for row in shop.rows(shop.tables.attempt)}
    assert logs[email.id].code == 250
    assert logs[email.id].reply in ("", poison)  # SQLite and MariaDB take a NUL
    assert max(catcher.copies().values()) == 1


def test_a_suppressed_recipient_gets_nothing_and_the_others_outcomes_are_recorded(
    shops: Shops, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    shop.database.run(lambda c: suppression.suppress(c, shop.database, "B@x.example", "asked"))
    email = shop.enqueue(*TWO)
    nobody = shop.enqueue("b@X.example")
    drain(shop.runtime)
    assert [mail.recipients for mail in catcher.emails] == [("a@x.example",)]
    assert shop.status(email.id) is Status.SENT
    assert shop.status(nobody.id) is Status.SUPPRESSED
    assert shop.recipients(email.id) == {"a@x.example": "sent", "b@x.example": "suppressed"}


def test_an_email_of_which_all_recipients_are_suppressed_is_suppressed(
    shops: Shops, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    for address in TWO:
        assert shop.database.run(lambda c, a=address: suppression.suppress(c, shop.database, a, ""))  # type: ignore[misc]
        assert not shop.database.run(
            lambda c, a=address: suppression.suppress(c, shop.database, a.upper(), "")  # type: ignore[misc]
        )
    email = shop.enqueue(*TWO)
    drain(shop.runtime)
    assert shop.status(email.id) is Status.SUPPRESSED
    assert set(shop.recipients(email.id).values()) == {"suppressed"}
    assert catcher.emails == ()
    assert shop.database.run(lambda c: suppression.allow(c, shop.database, "A@X.example"))
    [left] = shop.database.run(lambda c: suppression.suppressed(c, shop.database))
    assert (left.address, left.reason) == ("b@x.example", "")
