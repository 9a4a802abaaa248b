"""What is counted of attempts is what a recount of the attempt log says, whoever logged them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.refusal_fingerprint import fingerprint
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.domain.figures.histogram import BOUNDS
from outbox.store.records import EmailResult, WriteResult
from outbox.store.transitions.uncharge import uncharge
from outbox.store.transitions.window import advance, advance_in_steps
from tests.support.shop.shop import WORKER, Shop, entry, sent
from tests.support.shop.watching.recount import Counts, counted, recount

pytestmark = pytest.mark.each_database

REFUSED = Reply(code=554, enhanced="5.7.1", text="blocked")
Advance = Callable[..., WriteResult]
WAYS = pytest.mark.parametrize("way", [advance, advance_in_steps])


def same(shop: Shop) -> Counts:
    """Return what was counted; it must be what a recount says."""
    found = counted(shop.engine, shop.tables)
    assert found == recount(shop.engine, shop.tables)
    return found


def accepted(email_id: int, seconds: float) -> EmailResult:
    """Return the result of an email that was accepted so many seconds from now."""
    moment = datetime.now(UTC).timestamp() + seconds
    return replace(sent(email_id), started_at=moment, finished_at=moment)


def ended(email_id: int, verdict: Verdict, code: int = 450) -> EmailResult:
    status = Status.FAILED if verdict is Verdict.FAIL else Status.PENDING
    reply = Reply(code=code, enhanced="", text="no")
    return entry(email_id, Outcome(status=status, reply=reply, delay=60.0), verdict)


@WAYS
def test_a_window_s_attempts_are_counted_with_them(shop: Shop, way: Advance) -> None:
    ids = [shop.enqueue().id for _ in range(6)]
    made = shop.started()
    shop.open(made.token, *ids)
    table = shop.tables.email
    with shop.engine.begin() as connection:
        moved = sa.update(table).where(table.c.id == ids[1])
        connection.execute(moved.values(lane="news@customers.example", priority=2))
    results = [
        accepted(ids[0], 0.1),
        accepted(ids[1], 0.1),
        accepted(ids[2], 100.0),
        ended(ids[3], Verdict.RETRY),
        ended(ids[4], Verdict.FAIL, 550),
        ended(ids[5], Verdict.HALT),
    ]
    way(shop.database, made.token, results, [], worker=WORKER)
    found = same(shop)
    assert found.total() == 5, "a halt is no attempt of the email's own"
    assert {key[2:4] for key in found} == {("", 1), ("news", 2)}


def test_a_lost_worker_s_doubts_and_its_late_verdict_are_counted(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.lose(email.id)
    assert [key[4] for key in same(shop)] == ["unknown"]
    shop.record(made.token, [sent(email.id)])
    assert sorted(key[4] for key in same(shop)) == ["sent", "unknown"]


def test_a_result_of_a_lost_lease_is_not_counted(shop: Shop) -> None:
    email = shop.enqueue()
    made = shop.lose(email.id)
    shop.sending(email.id)
    shop.record(made.token, [ended(email.id, Verdict.RETRY)])
    assert [key[4] for key in same(shop)] == ["unknown"]


def test_what_is_taken_back_moves_to_the_halted(shop: Shop) -> None:
    ids = [shop.enqueue(f"r@{number}.example").id for number in range(3)]
    made = shop.started()
    shop.open(made.token, *ids)
    end = Outcome(status=Status.FAILED, reply=REFUSED, attempts_added=1)
    results = [entry(i, end, Verdict.FAIL, phase=Phase.RCPT) for i in ids]
    shop.record(made.token, results)
    assert [key[4] for key in same(shop)] == ["fail"]
    refusal = fingerprint(Phase.RCPT, REFUSED) or ""
    assert uncharge(shop.database, "mx.example:25", refusal, lifetime=86_400.0) == 3
    assert [key[4] for key in same(shop)] == ["halt"]


def test_an_email_that_was_put_off_by_its_sender_is_due_at_that_time(shop: Shop) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    email = shop.enqueue(send_at=later)
    shop.later(3700)
    made = shop.sending(email.id)
    shop.record(made.token, [accepted(email.id, 3612.0)])
    [key] = same(shop)
    assert BOUNDS[key[-1]] == 15.0, "twelve seconds after `send_at`"
