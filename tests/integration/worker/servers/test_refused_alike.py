"""A real server that refuses everybody: the emails do not pay, whichever window they are in."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.steps.motion import Motion, attempts, server, standing, write

pytestmark = pytest.mark.one_database("postgresql")

NEEDED, WINDOW = 6, 4
OVER_A_NEW_SESSION = 1  # the second email that is refused alike: the session may be at fault
BLOCKED = "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen"
NAMELESS = "450 4.7.1 Client host rejected: cannot find your hostname, [192.0.2.1]"
GREYLISTED = "450 4.7.1 Client host rejected: Greylisted, see http://postgrey.example/help"
UNTOUCHED, SENT, FAILED = ("pending", 0, 0, 0), ("sent", 1, 0, 0), ("failed", 1, 0, 0)
PUT_OFF = ("pending", 1, 0, 0)


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    """A shop with one slot: its emails are one batch of several windows."""
    return shops.open(
        MAIL_PORT=catcher.port,
        OUTBOX_REFUSED_ALIKE=NEEDED,
        OUTBOX_WINDOW=WINDOW,
        OUTBOX_SLOTS=1,
    )


class Blocklist:
    """Refuses every recipient, but for whom it is told to let through; remembers who was asked."""

    def __init__(self, catcher: Catcher, *, fine: int = 0) -> None:
        self.asked: list[str] = []
        self._fine = fine  # each so-manieth is let through
        catcher.reply_to_recipient = self._reply

    def _reply(self, address: str) -> str | None:
        self.asked.append(address)
        if self._fine and len(self.asked) % self._fine == 0:
            return None
        return f"{BLOCKED}; {address}"


def enqueue(shop: Shop, count: int, start: int = 0) -> None:
    """Write emails of different contents to different domains."""
    for address in (f"reader@r{number:05}.example" for number in range(start, start + count)):
        with shop.session() as session:
            shop.outbox.enqueue(message(address, subject=address), session=session)
            session.commit()


def test_a_server_that_refuses_everybody_charges_nobody_and_alerts(
    shop: Shop, catcher: Catcher
) -> None:
    """The streak began in the first window, which was recorded before it was full."""
    blocklist = Blocklist(catcher)
    enqueue(shop, 20)
    assert Motion(shop=shop).beat() == 1
    assert standing(shop) == {UNTOUCHED: 20}
    assert len(blocklist.asked) == NEEDED + OVER_A_NEW_SESSION
    log = attempts(shop)
    assert log == {(shop.runtime.servers[0].name, "halt"): WINDOW}, (
        "the second window's are not logged"
    )
    (row,) = shop.rows(shop.tables.breaker)
    assert (bool(row.alert), row.failures) == (True, 1)
    assert 4 <= (row.retry_at - row.opened_at).total_seconds() <= 6
    waited = sorted(row.waited for row in shop.rows(shop.tables.email))
    assert waited == [0] * (20 - NEEDED) + [5] * NEEDED, "who was refused waits behind"
    assert "every email is refused alike: rcpt: 554 5.7.1 Service" in row.reason
    assert "r00000.example" not in row.reason


@pytest.mark.long
@pytest.mark.parametrize(
    ("reply", "standings"),
    [(NAMELESS, {UNTOUCHED: 20}), (GREYLISTED, {PUT_OFF: 20})],
    ids=["no name", "greylisted"],
)
def test_a_server_that_puts_off_a_client_without_a_name_alerts_and_one_that_greylists_does_not(
    shop: Shop,
    catcher: Catcher,
    reply: str,
    standings: dict[tuple[str, int, int, int], int],
) -> None:
    catcher.reply_to_recipient = lambda _: reply
    enqueue(shop, 20)
    Motion(shop=shop).beat()
    assert standing(shop) == standings
    alerts = [bool(row.alert) for row in shop.rows(shop.tables.breaker)]
    assert alerts == [True] * (reply is NAMELESS)


@pytest.mark.long
@pytest.mark.parametrize(
    "reply",
    [
        "550 Verification failed for <shop@shop.example> No Such User Here Sender verify failed",
        "550 5.1.0 <shop@shop.example>: Sender address rejected: User unknown in virtual table",
    ],
    ids=["Exim", "Postfix"],
)
def test_a_server_that_refuses_the_sender_at_each_recipient_charges_nobody_and_alerts(
    shop: Shop, catcher: Catcher, reply: str
) -> None:
    catcher.reply_to_recipient = lambda _: reply
    enqueue(shop, 20)
    Motion(shop=shop).beat()
    assert standing(shop) == {UNTOUCHED: 20}
    assert [bool(row.alert) for row in shop.rows(shop.tables.breaker)] == [True]


@pytest.mark.long
def test_while_it_lasts_each_probe_is_free_and_after_it_everything_is_delivered(
    shop: Shop, catcher: Catcher
) -> None:
    blocklist, motion = Blocklist(catcher), Motion(shop=shop)
    enqueue(shop, 20)
    motion.beat()
    for probes in range(1, 4):
        shop.later(31)
        assert motion.beat() == 1
        assert motion.beat() == 0
        assert standing(shop) == {UNTOUCHED: 20}
        assert len(blocklist.asked) == NEEDED + OVER_A_NEW_SESSION + probes
    catcher.reply_to_recipient = lambda _: None
    shop.later(61)
    motion.until_empty()
    assert shop.count(shop.tables.breaker) == 0
    assert standing(shop) == {SENT: 20}
    assert set(catcher.copies().values()) == {1}


def test_batches_that_are_too_small_to_tell_come_to_it_together_and_the_log_tells(
    shop: Shop, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    Blocklist(catcher)
    motion = Motion(shop=shop)
    enqueue(shop, NEEDED - 1)
    motion.beat()
    assert standing(shop) == {FAILED: NEEDED - 1}
    assert "halted" not in caplog.text
    enqueue(shop, 1, start=NEEDED)
    motion.beat()
    assert standing(shop) == {UNTOUCHED: NEEDED}
    assert shop.rows(shop.tables.breaker)[0].alert
    [record] = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "is halted (it refuses every email alike)" in record.getMessage()


@pytest.mark.long
def test_a_success_in_between_makes_the_refusals_the_emails_own(
    shop: Shop, catcher: Catcher
) -> None:
    Blocklist(catcher, fine=NEEDED)
    enqueue(shop, 20)
    Motion(shop=shop).beat()
    assert standing(shop) == {FAILED: 17, SENT: 3}
    assert shop.count(shop.tables.breaker) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "reply",
    ["550 5.1.1 <{}>: user unknown", "550 5.7.{number} refused"],
    ids=["unknown", "different"],
)
def test_refusals_that_are_the_recipients_own_or_differ_are_charged(
    shop: Shop, catcher: Catcher, reply: str
) -> None:
    """Each has words of its own."""
    catcher.reply_to_recipient = lambda a: reply.format(a, number=int(a[8:13]) + 1)
    enqueue(shop, 20)
    Motion(shop=shop).beat()
    assert standing(shop) == {FAILED: 20}
    assert shop.count(shop.tables.breaker) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("reply", "standings"),
    [
        ("452 Mailbox quota exceeded", {PUT_OFF: 20}),
        ("552 Requested mail action aborted: exceeded storage allocation", {FAILED: 20}),
        ("554 5.7.1 <{}>: Recipient address rejected: Mailbox is full", {FAILED: 20}),
        ("452 4.3.1 Insufficient system storage", {UNTOUCHED: 20}),
    ],
    ids=["no code", "RFC 5321's words", "a policy's code", "the server's own disk"],
)
def test_full_mailboxes_halt_no_server_and_a_full_disk_does(
    shop: Shop, catcher: Catcher, reply: str, standings: dict[tuple[str, int, int, int], int]
) -> None:
    catcher.reply_to_recipient = reply.format
    enqueue(shop, 20)
    Motion(shop=shop).beat()
    assert standing(shop) == standings
    assert shop.count(shop.tables.breaker) == (UNTOUCHED in standings)


@pytest.mark.long
def test_what_one_domain_refuses_opens_nothing(shop: Shop, catcher: Catcher) -> None:
    Blocklist(catcher)
    for number in range(3 * NEEDED):
        shop.enqueue(f"r{number}@x.example")
    Motion(shop=shop).beat()
    assert standing(shop) == {FAILED: 3 * NEEDED}
    assert shop.count(shop.tables.breaker) == 0


@pytest.mark.long
def test_what_one_sender_is_refused_opens_nothing_while_another_s_email_is_taken(
    shop: Shop, catcher: Catcher
) -> None:
    def refuse(address: str) -> str | None:
        return BLOCKED if "brand" not in address else None

    catcher.reply_to_recipient = refuse
    enqueue(shop, 3 * NEEDED)
    other = message("a@brand.example")
    del other["From"]
    other["From"] = "brand@brand.example"
    with shop.session() as session:
        shop.outbox.enqueue(other, session=session)
        session.commit()
    Motion(shop=shop).beat()
    assert standing(shop) == {FAILED: 3 * NEEDED, SENT: 1}
    assert shop.count(shop.tables.breaker) == 0


@pytest.mark.long
def test_a_newsletter_that_a_filter_refuses_counts_once(shop: Shop, catcher: Catcher) -> None:
    catcher.reply_to_content = lambda _: "550 5.7.1 looks like spam"
    write(shop, 20)
    Motion(shop=shop).beat()
    assert standing(shop) == {FAILED: 20}
    assert shop.count(shop.tables.breaker) == 0
    enqueue(shop, NEEDED - 1)
    Motion(shop=shop).beat()
    assert halted_alike(shop), "with five contents of other emails it is six"


def halted_alike(shop: Shop) -> bool:
    rows = shop.rows(shop.tables.breaker)
    told = "the last contents were all refused alike, and probes try others: dot: 550"
    return bool(rows) and rows[0].reason.startswith(told)


@pytest.mark.long
def test_emails_with_several_recipients_get_all_of_them_back(shop: Shop, catcher: Catcher) -> None:
    Blocklist(catcher)
    ids = [shop.enqueue(f"a@x{n}.example", f"b@x{n}.example").id for n in range(NEEDED + 3)]
    motion = Motion(shop=shop)
    motion.beat()
    assert standing(shop) == {UNTOUCHED: NEEDED + 3}
    assert {s for i in ids for s in shop.recipients(i).values()} == {"pending"}
    catcher.reply_to_recipient = lambda _: None
    shop.later(61)
    motion.until_empty()
    assert standing(shop) == {SENT: NEEDED + 3}
    assert {s for i in ids for s in shop.recipients(i).values()} == {"sent"}
    assert Counter(catcher.copies().values()) == {1: 2 * (NEEDED + 3)}


@pytest.mark.long
def test_another_server_takes_what_the_first_refuses_to_everybody(
    shops: Shops, catcher: Catcher
) -> None:
    with Catcher() as spare:
        shop = shops.open(
            OUTBOX_SERVERS=[server("a", catcher.port), server("b", spare.port, order=2)],
            OUTBOX_REFUSED_ALIKE=NEEDED,
            OUTBOX_WINDOW=WINDOW,
            OUTBOX_SLOTS=1,
        )
        Blocklist(catcher)
        enqueue(shop, 20)
        Motion(shop=shop).beat()
        shop.later(6)  # those that were recorded before the row was full wait behind
        Motion(shop=shop).beat()
        assert standing(shop) == {SENT: 20}
        assert attempts(shop)["b", "sent"] == 20
        assert set(spare.copies().values()) == {1}
