"""Refusals that turn out to be the server's fault are taken back, whoever recorded them."""

from __future__ import annotations

from dataclasses import replace
from time import time
from typing import Any

import pytest
from sqlalchemy import update

from outbox import Status
from outbox.domain.config.settings import OnUnknown
from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.delivery.outcome import Outcome, RecipientStatus
from outbox.domain.delivery.refusal_fingerprint import fingerprint
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.store.control import circuit_breaker
from outbox.store.control.blame.attempts import READ_BACK
from outbox.store.transitions.rescue import rescue
from outbox.store.transitions.retry import retry
from outbox.store.transitions.uncharge import review, uncharge
from tests.integration.store.control.test_suspicion import log
from tests.support.shop.shop import LEASE, Shop, entry, sent

pytestmark = pytest.mark.each_database

SERVER = "mx.example:25"
BLOCKED = Reply(code=554, enhanced="5.7.1", text="Client host [192.0.2.1] blocked using zen")
REFUSAL = fingerprint(Phase.RCPT, BLOCKED) or ""


def judged(shop: Shop, *ids: int, reply: Reply = BLOCKED, **changes: Any) -> None:
    """Record a refusal of each of these emails."""
    put_off = reply.code < 500
    end = Outcome(
        status=Status.PENDING if put_off else Status.FAILED,
        reply=reply,
        attempts_added=1,
        delay=900.0 if put_off else 0.0,
        recipients=(
            ("a@x.example", RecipientStatus.FAILED, reply),
            ("b@x.example", RecipientStatus.FAILED, reply),
        ),
    )
    verdict = Verdict.RETRY if put_off else Verdict.FAIL
    (made,) = shop.claim()
    assert shop.start(made.token)
    shop.open(made.token, *ids)
    changes = {"phase": Phase.RCPT} | changes
    shop.record(made.token, [entry(i, end, verdict, **changes) for i in ids])


def enqueued(shop: Shop, count: int) -> list[int]:
    return [shop.enqueue(f"r@{number}.example").id for number in range(count)]


LIFETIME = 2 * 86_400.0


def taken_back(shop: Shop, refusal: str = REFUSAL) -> int:
    return uncharge(shop.database, SERVER, refusal, lifetime=LIFETIME)


def reviewed(
    shop: Shop, needed: int, refusal: str = REFUSAL, *, outsider_tells: bool = False
) -> bool:
    return review(
        shop.database,
        SERVER,
        refusal,
        needed=needed,
        lifetime=LIFETIME,
        outsider_tells=lambda _: outsider_tells,
        opened=lambda: None,
    )


def charged(shop: Shop) -> list[tuple[str, int]]:
    return [(row.status, row.attempts) for row in shop.rows(shop.tables.email)]


def test_failed_emails_are_pending_again_behind_the_others_and_not_charged(shop: Shop) -> None:
    ids = enqueued(shop, 3)
    judged(shop, *ids)
    assert charged(shop) == [("failed", 1)] * 3
    assert taken_back(shop) == 3
    assert charged(shop) == [("pending", 0)] * 3
    for row in shop.rows(shop.tables.email):
        assert 5 <= (row.due_at - row.created_at).total_seconds() < 65
        assert (row.finished_at, row.waited) == (None, 5)


def test_they_are_found_beside_a_busy_server(shop: Shop) -> None:
    ids = enqueued(shop, 3)
    judged(shop, *ids)
    other = shop.enqueue()
    log(shop, other.id, "busy.example:25", Verdict.SENT, READ_BACK)
    assert taken_back(shop) == 3
    assert charged(shop) == [("pending", 0)] * 4


def test_what_was_tried_for_its_whole_lifetime_stays_failed(shop: Shop) -> None:
    ids = enqueued(shop, 2)
    judged(shop, *ids)
    with shop.engine.begin() as connection:
        tried = update(shop.tables.email).where(shop.tables.email.c.id == ids[0])
        connection.execute(tried.values(waited=LIFETIME - 10))
    assert taken_back(shop) == 1
    assert charged(shop) == [("failed", 1), ("pending", 0)]


def test_what_failed_by_a_later_verdict_stays_failed(shop: Shop) -> None:
    reply = Reply(code=451, enhanced="4.3.0", text="Temporary lookup failure")
    refused, doubted = enqueued(shop, 2)
    judged(shop, refused, doubted, reply=reply)
    shop.later(900)
    (made,) = shop.claim()
    shop.start(made.token)
    shop.open(made.token, refused, doubted)
    no_such_user = Outcome(status=Status.FAILED, reply=Reply(code=550), attempts_added=1)
    shop.record(made.token, [entry(refused, no_such_user, Verdict.FAIL, server="other.example:25")])
    hold = replace(shop.runtime.settings, on_unknown=OnUnknown.HOLD)
    for _ in range(2):
        shop.later(LEASE + 1)
        rescue(shop.database, hold, random=lambda: 0.5)
    assert shop.status(doubted) is Status.UNKNOWN
    with shop.app.app_context():
        shop.outbox.resolve(doubted, "failed")
    taken_back(shop, fingerprint(Phase.RCPT, reply) or "")
    assert [shop.status(one) for one in (refused, doubted)] == [Status.FAILED] * 2


def test_it_is_taken_back_once_and_the_log_keeps_what_happened(shop: Shop) -> None:
    judged(shop, *enqueued(shop, 2))
    assert taken_back(shop) == 2
    assert taken_back(shop) == 0
    assert charged(shop) == [("pending", 0)] * 2
    log = shop.rows(shop.tables.attempt)
    assert [(row.verdict, row.reply) for row in log] == [("halt", BLOCKED.text)] * 2


def test_emails_that_were_put_off_keep_their_time_and_get_their_attempt_back(shop: Shop) -> None:
    reply = Reply(code=451, enhanced="4.3.0", text="Temporary lookup failure")
    judged(shop, *enqueued(shop, 2), reply=reply)
    before = [row.due_at for row in shop.rows(shop.tables.email)]
    assert taken_back(shop, fingerprint(Phase.RCPT, reply) or "") == 2
    assert charged(shop) == [("pending", 0)] * 2
    assert [row.due_at for row in shop.rows(shop.tables.email)] == before


def test_only_what_came_since_the_last_success_is_taken_back(shop: Shop) -> None:
    early = enqueued(shop, 2)
    judged(shop, *early)
    fine = shop.enqueue().id
    made = shop.sending(fine)
    shop.record(made.token, [sent(fine)])
    judged(shop, *enqueued(shop, 2))
    assert taken_back(shop) == 2
    assert [status for status, _ in charged(shop)] == [
        "failed", "failed", "sent", "pending", "pending",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("server", "reply"),
    [("spare", BLOCKED), (SERVER, Reply(code=550, enhanced="5.1.1", text="no such user"))],
)
def test_what_another_server_said_or_for_another_reason_stands(
    shop: Shop, server: str, reply: Reply
) -> None:
    judged(shop, *enqueued(shop, 2), server=server, reply=reply)
    assert taken_back(shop) == 0
    assert charged(shop) == [("failed", 1)] * 2


def test_what_a_person_took_up_meanwhile_is_left_alone(shop: Shop) -> None:
    ids = enqueued(shop, 3)
    judged(shop, *ids)
    shop.database.run(lambda c: retry(c, shop.database, ids[:1]))  # its counters are fresh
    with shop.engine.begin() as connection:
        table = shop.tables.email
        gone = {"status": Status.CANCELLED, "due_at": None, "finished_at": shop.database.now()}
        shop.database.run(lambda c: retry(c, shop.database, ids[1:2]))
        connection.execute(update(table).where(table.c.id == ids[1]).values(gone))
    taken_back(shop)
    assert charged(shop) == [("pending", 0), ("cancelled", 0), ("pending", 0)]


def test_of_several_recipients_those_who_were_refused_so_are_written_to_again(shop: Shop) -> None:
    email = shop.enqueue("a@x.example", "b@x.example", "c@x.example", "d@x.example")
    judged(shop, email.id, several=True)
    with shop.engine.begin() as connection:
        table = shop.tables.recipient
        for name, code, enhanced in (("c", 554, "5.1.1"), ("d", 550, "5.7.1")):
            own = {"status": "failed", "code": code, "enhanced": enhanced}
            connection.execute(
                update(table).where(table.c.address == f"{name}@x.example").values(own)
            )
    assert taken_back(shop) == 1
    assert shop.recipients(email.id) == {
        "a@x.example": "pending",
        "b@x.example": "pending",
        "c@x.example": "failed",
        "d@x.example": "failed",
    }


def test_batches_that_each_saw_too_few_come_to_enough_together(shop: Shop) -> None:
    judged(shop, *enqueued(shop, 2))
    assert not reviewed(shop, 3)
    assert shop.count(shop.tables.breaker) == 0
    judged(shop, shop.enqueue("last@x.example").id)
    assert reviewed(shop, 3)
    (row,) = shop.rows(shop.tables.breaker)
    assert (bool(row.alert), row.refusal) == (True, REFUSAL)
    assert row.reason.startswith("every email is refused alike: rcpt: 554")
    assert charged(shop) == [("pending", 0)] * 3


def test_a_worker_that_saw_too_few_finds_the_breaker_open_for_the_same_refusal(shop: Shop) -> None:
    judged(shop, *enqueued(shop, 1))
    circuit_breaker.trip(
        shop.database,
        SERVER,
        cause=Cause.EMAILS,
        reason="refused alike",
        alert=True,
        refusal=REFUSAL,
    )
    assert reviewed(shop, 10)
    assert charged(shop) == [("pending", 0)]


def test_what_one_domain_refuses_is_that_domains_matter(shop: Shop) -> None:
    judged(shop, *(shop.enqueue(f"r{number}@x.example").id for number in range(5)))
    assert not reviewed(shop, 3)
    assert shop.count(shop.tables.breaker) == 0
    assert charged(shop) == [("failed", 1)] * 5


def test_what_one_sender_is_refused_may_be_its_own_matter_while_others_wait(shop: Shop) -> None:
    judged(shop, *enqueued(shop, 3))
    assert not reviewed(shop, 3, outsider_tells=True)
    assert charged(shop) == [("failed", 1)] * 3
    assert reviewed(shop, 3)
    assert charged(shop) == [("pending", 0)] * 3


def test_one_recipient_who_is_refused_again_and_again_opens_nothing(shop: Shop) -> None:
    for _ in range(3):
        judged(shop, shop.enqueue("same@x.example").id)
    assert not reviewed(shop, 2)
    assert charged(shop) == [("failed", 1)] * 3


def test_a_content_that_is_refused_again_and_again_opens_nothing(shop: Shop) -> None:
    refusal = fingerprint(Phase.DOT, BLOCKED) or ""
    ids = enqueued(shop, 2)
    table = shop.tables.email
    with shop.engine.begin() as connection:
        first = shop.email_row(ids[0]).content_id
        connection.execute(update(table).where(table.c.id == ids[1]).values(content_id=first))
    judged(shop, *ids, phase=Phase.DOT)
    assert not reviewed(shop, 2, refusal)
    judged(shop, *enqueued(shop, 1), phase=Phase.DOT)
    assert reviewed(shop, 2, refusal)


def test_a_content_that_was_taken_before_counts_by_recipient(shop: Shop) -> None:
    refusal = fingerprint(Phase.DOT, BLOCKED) or ""
    first = shop.enqueue().id
    made = shop.sending(first)
    shop.record(made.token, [replace(sent(first), started_at=time(), finished_at=time())])
    rest = enqueued(shop, 2)
    with shop.engine.begin() as connection:
        content = shop.email_row(first).content_id
        connection.execute(update(shop.tables.email).values(content_id=content))
    judged(shop, *rest, phase=Phase.DOT)
    assert not reviewed(shop, 3, refusal)
    assert reviewed(shop, 2, refusal)
    assert charged(shop) == [("sent", 1), ("pending", 0), ("pending", 0)]
