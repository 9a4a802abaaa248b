"""What a person is told: the figures of all emails, the oldest due one, and one email whole."""

from __future__ import annotations

from datetime import timedelta

import pytest

from outbox import Priority, Status
from outbox.store.queries import reports, standstill
from tests.integration.store.control.test_circuit_breaker import trip
from tests.support.shop.shop import START, WORKER, Shop, message, sent

pytestmark = pytest.mark.each_database


def test_the_figures_tell_of_everything(shop: Shop) -> None:
    shop.enqueue(priority=Priority.BULK, send_at=START)
    done = shop.enqueue()
    made = shop.sending(done.id)
    shop.record(made.token, [sent(done.id)])
    trip(shop)
    figures = shop.database.run(lambda c: reports.stats(c, shop.database))
    assert figures.statuses == {s: int(s in ("pending", "sent")) for s in Status}
    assert figures.due == {Priority.URGENT: 0, Priority.NORMAL: 0, Priority.BULK: 1}
    assert figures.oldest_due_seconds > 0
    assert figures.batches_in_flight == 1
    assert (figures.all_paused, figures.paused, figures.counters) == (False, frozenset(), {})
    assert shop.outbox.counts() == {Status.PENDING: 1, Status.SENT: 1}
    assert shop.outbox.counts("none") == {}


def test_the_oldest_due_email_sees_waiting_emails_only(shop: Shop) -> None:
    def oldest() -> float:
        return shop.database.run(lambda c: standstill.oldest_due(c, shop.database))

    assert oldest() == 0.0
    shop.enqueue(send_at=START + timedelta(days=36_500))
    assert oldest() == 0.0
    shop.enqueue()
    shop.later(100)
    assert 100 <= oldest() < 160
    shop.claim()
    assert oldest() == 0.0


def test_one_email_is_shown_with_its_recipients_and_attempts(shop: Shop) -> None:
    with shop.session() as session:
        mail = message("a@x.example", "b@x.example", subject="Gr\u00fc\u00dfe")
        email = shop.outbox.enqueue(mail, session=session, key="k", tag="t")
        session.commit()
    shop.lose(email.id)
    shown = shop.database.run(lambda c: reports.detail(c, shop.database, email.id))
    assert shown is not None
    assert (shown.subject, shown.key, shown.tag) == ("Gr\u00fc\u00dfe", "k", "t")
    assert [r.status for r in shown.recipient_list] == [Status.UNKNOWN] * 2
    assert [a.worker for a in shown.attempt_list] == [WORKER]
    assert shop.database.run(lambda c: reports.detail(c, shop.database, 99)) is None
