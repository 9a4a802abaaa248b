"""A real server that refuses everybody: the mails do not pay for it, whichever window they are in.

What a relay does with `Refusals` is done here by hand, a mail and a window at a time.
"""

from __future__ import annotations

import pytest

from outbox import Status
from outbox.domain.conclusion import Conclusion, Facts, conclude
from outbox.domain.settings import OnUnknown
from outbox.domain.verdict import Reply, Transaction, Verdict
from outbox.store import breaker, content
from outbox.store.rows import Entry, Waiting
from outbox.store.window import finish
from outbox.worker.refusals import Refusals
from tests.integration.conftest import WORKER, Shop, Shops, addresses, entry
from tests.servers.catcher import Catcher

NEEDED, WINDOW = 6, 4
BLOCKED = "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen"
FACTS = Facts(
    attempts=0,
    max_attempts=12,
    deliveries=0,
    max_deliveries=5,
    doubts=0,
    on_unknown=OnUnknown.RESEND,
    seconds_left=1000.0,
)


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    return shops.open(MAIL_PORT=catcher.port, OUTBOX_REFUSED_ALIKE=NEEDED)


def relay(shop: Shop, limit: int = 100) -> None:
    """Send one batch, in windows, until the server is found to be at fault."""
    runtime = shop.runtime
    (made,) = shop.claim(limit)
    batch = shop.start(made.token)
    assert batch is not None
    refusals = Refusals(runtime, runtime.server, halted=batch.halted)
    halted, usable = False, False
    for start in range(0, len(batch.mails), WINDOW):
        window = batch.mails[start : start + WINDOW]
        shop.open(made.token, *(mail.id for mail in window))
        results: dict[int, Entry] = {}
        for mail in window:
            if halted:
                results[mail.id] = given_back(shop, mail)
                continue
            result, results[mail.id] = send(shop, mail)
            unjust = refusals.note(mail, result)
            halted, usable = bool(unjust), True
            results |= {m.id: given_back(shop, m) for m in window if m.id in unjust & set(results)}
        shop.record(made.token, list(results.values()))
        if halted:
            break
    finish(runtime.database, made.token, [], worker=WORKER)
    refusals.settle()
    if usable and batch.halted and not halted:
        breaker.close(runtime.database, runtime.server.name)


def send(shop: Shop, mail: Waiting) -> tuple[Transaction, Entry]:
    body = shop.database.read(lambda c: content.read(c, shop.tables, {mail.content_id}))
    with shop.runtime.connection() as connection:
        whole = mail.headers + body[mail.content_id]
        result = connection.send(mail.envelope, whole, lambda: True)
    end = conclude(FACTS, result, random=lambda: 0.5)
    name = shop.runtime.server.name
    return result, entry(mail.id, end, result.verdict, phase=result.phase, server=name)


def given_back(shop: Shop, mail: Waiting) -> Entry:
    unsent = Conclusion(status=Status.PENDING, reply=Reply(code=0), doubts=mail.doubts)
    return entry(mail.id, unsent, Verdict.HALT)


def blocked(address: str) -> str | None:
    return f"{BLOCKED}; {address}"


def enqueue(shop: Shop, count: int) -> None:
    for address in addresses(count):
        shop.enqueue(address)


def charged(shop: Shop) -> set[tuple[str, int, int]]:
    return {(row.status, row.attempts, row.doubts) for row in shop.rows(shop.tables.email)}


def test_a_server_that_refuses_everybody_charges_nobody_and_alerts(
    shop: Shop, catcher: Catcher
) -> None:
    asked: list[str] = []

    def refuse(address: str) -> str | None:
        asked.append(address)
        return blocked(address)

    catcher.reply_to_recipient = refuse
    enqueue(shop, 20)
    relay(shop)
    assert charged(shop) == {("pending", 0, 0)}
    assert len(asked) == NEEDED
    (row,) = shop.rows(shop.tables.breaker)
    assert (bool(row.alert), row.failures) == (True, 1)
    assert (row.retry_at - row.opened_at).total_seconds() >= 299
    assert "every mail is refused alike: rcpt: 554 5.7.1 Service" in row.reason
    assert "readers.example" not in row.reason


def test_while_it_lasts_each_probe_is_free_and_after_it_everything_is_delivered(
    shop: Shop, catcher: Catcher
) -> None:
    catcher.reply_to_recipient = blocked
    enqueue(shop, 20)
    relay(shop)
    name = shop.runtime.server.name
    for _ in range(3):
        shop.later(301)
        assert breaker.probe(shop.database, name)
        relay(shop, 1)
        assert charged(shop) == {("pending", 0, 0)}
        assert not breaker.probe(shop.database, name)
    catcher.reply_to_recipient = lambda _: None
    shop.later(301)
    assert breaker.probe(shop.database, name)
    relay(shop, 1)
    assert shop.count(shop.tables.breaker) == 0
    relay(shop)
    assert charged(shop) == {("sent", 1, 0)}
    assert set(catcher.copies().values()) == {1}


def test_batches_that_are_too_small_to_tell_come_to_it_together(
    shop: Shop, catcher: Catcher
) -> None:
    catcher.reply_to_recipient = blocked
    enqueue(shop, NEEDED)
    relay(shop, NEEDED - 1)
    assert ("failed", 1, 0) in charged(shop)
    relay(shop, 1)
    assert charged(shop) == {("pending", 0, 0)}
    assert shop.rows(shop.tables.breaker)[0].alert


def test_a_success_in_between_makes_the_refusals_the_mails_own(
    shop: Shop, catcher: Catcher
) -> None:
    asked: list[str] = []

    def mostly(address: str) -> str | None:
        asked.append(address)
        return None if len(asked) % NEEDED == 0 else blocked(address)

    catcher.reply_to_recipient = mostly
    enqueue(shop, 20)
    relay(shop)
    assert charged(shop) == {("failed", 1, 0), ("sent", 1, 0)}
    assert shop.count(shop.tables.breaker) == 0


def test_addresses_that_do_not_exist_are_their_own_matter(shop: Shop, catcher: Catcher) -> None:
    catcher.reply_to_recipient = lambda address: f"550 5.1.1 <{address}>: user unknown"
    enqueue(shop, 20)
    relay(shop)
    assert charged(shop) == {("failed", 1, 0)}
    assert shop.count(shop.tables.breaker) == 0
