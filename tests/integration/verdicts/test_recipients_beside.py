"""A recipient whom the server takes gets the email, whatever it says to the others beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from outbox.worker.drain import drain
from tests.integration.verdicts.impatient import FULL, OK, ImpatientServer
from tests.support.servers.smtp.stateful import Answer, StatefulServer, hang_up
from tests.support.shop.shop import Shop, Shops
from tests.support.verdicts.reverse_path import GMAIL, GODADDY, SES, TOO_MANY

pytestmark = pytest.mark.databases("sqlite")

NO, DENIED = "550 5.1.1 unknown", "550 5.7.1 Access denied"
BLOCKED = "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen"
BAD = tuple(f"bad{number}@x.example" for number in range(22))
GOOD = tuple(f"good{number}@x.example" for number in range(8))
MINUTE, HOUR = 60.0, 3600.0
PIPELINING = pytest.mark.parametrize("pipelining", [False, True], ids=["in turn", "pipelined"])

postfix = partial(ImpatientServer, errors=20)
strict = partial(ImpatientServer, errors=1)
exim = partial(ImpatientServer, errors=1, farewell="")


def says(reply: str, address: str) -> str:
    return reply if address.startswith("bad") else OK


def open_shop(shops: Shops, server: ImpatientServer, **config: object) -> Shop:
    shop = shops.open(MAIL_PORT=server.port, **config)
    shop.runtime.random = lambda: 0.5
    return shop


def go_on(shop: Shop, *, seconds: float) -> None:
    """Send what is due, again and again, for so long."""
    for _ in range(int(seconds / 31)):
        drain(shop.runtime)
        shop.later(31)


@pytest.mark.long
@PIPELINING
@pytest.mark.parametrize(
    ("server", "order", "reply", "others"),
    [
        (postfix, BAD + GOOD, NO, 0),
        (postfix, BAD + GOOD, DENIED, 0),
        (postfix, GOOD[:4] + BAD + GOOD[4:], DENIED, 3),
        (strict, BAD + GOOD, DENIED, 3),
        (strict, GOOD + BAD, NO, 0),
        (exim, BAD + GOOD, NO, 3),
        (exim, BAD + GOOD, DENIED, 0),
        (exim, GOOD[:4] + BAD + GOOD[4:], NO, 0),
    ],
)
def test_who_is_taken_gets_the_email_though_the_server_hangs_up_on_those_who_are_refused(
    shops: Shops,
    server: Callable[..., ImpatientServer],
    order: tuple[str, ...],
    reply: str,
    others: int,
    pipelining: bool,
) -> None:
    names = [f"other{number}@y.example" for number in range(others)]
    with server(partial(says, reply), pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue(*order)
        for name in names:
            shop.enqueue(name)
        go_on(shop, seconds=15 * MINUTE)
    assert shop.recipients(email.id) == {a: "sent" if a in GOOD else "failed" for a in order}
    assert shop.statuses() == ["sent"] * (1 + others)
    row = shop.email_row(email.id)
    assert (row.attempts, row.crashes, row.unknown_count) == (1, 0, 0)
    assert smtp.copies == Counter([*GOOD, *names])
    assert {smtp.asked[address] for address in BAD} == {1}
    assert shop.count(shop.tables.breaker) == 0


@pytest.mark.long
@PIPELINING
def test_who_is_taken_gets_the_email_once_though_the_server_hangs_up_on_one_whom_it_puts_off(
    shops: Shops, pipelining: bool
) -> None:
    """Others are taken meanwhile. It was charged a crash each time, and failed at the fifth."""
    with exim(partial(says, "450 4.2.0 later"), pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue("good@x.example", "bad@x.example")
        for number in range(8):
            shop.enqueue(f"other{number}@y.example")
            drain(shop.runtime)
            row = shop.email_row(email.id)
            assert (row.status, row.attempts, row.crashes) == ("pending", 0, 0)
            shop.later(HOUR)
        told = {(one.verdict, one.phase) for one in shop.rows(shop.tables.attempt)}
        assert told == {("sent", "dot"), ("unsent", "data")}
        smtp.says = lambda _: OK
        shop.later(2 * HOUR)
        drain(shop.runtime)
        assert shop.email_row(email.id).status == "sent"
    assert set(smtp.copies.values()) == {1}


@PIPELINING
def test_what_the_server_said_to_each_is_told(shops: Shops, pipelining: bool) -> None:
    with strict(partial(says, NO), pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue("bad@x.example", "good@x.example")
        drain(shop.runtime)
        row = shop.email_row(email.id)
        assert (row.status, row.attempts, row.waited) == ("pending", 0, 30)
        table = shop.tables.recipient
        told = [(one.status, one.code, one.reply) for one in shop.rows(table)]
        assert told == [
            ("failed", 550, "unknown"),
            ("pending", 421, "mx.example Error: too many errors"),
        ]
        [attempt] = shop.rows(shop.tables.attempt)
        assert (attempt.verdict, attempt.phase, attempt.code) == ("suspect", "rcpt", 550)


def test_a_lifetime_that_is_over_ends_the_email_and_keeps_what_each_was_told(shops: Shops) -> None:
    with strict(partial(says, NO)) as smtp:
        shop = open_shop(shops, smtp, OUTBOX_LIFETIME=30.0)
        email = shop.enqueue("bad@x.example", "good@x.example")
        drain(shop.runtime)
    assert shop.email_row(email.id).status == "failed"
    told = [(one.status, one.code) for one in shop.rows(shop.tables.recipient)]
    assert told == [("failed", 550), ("failed", 421)]


@pytest.mark.long
@PIPELINING
@pytest.mark.parametrize("server", [postfix, strict, exim], ids=["postfix", "strict", "exim"])
@pytest.mark.parametrize("batch", [100, 2], ids=["in one batch", "in several"])
def test_where_all_are_refused_alike_nobody_is_failed_though_the_server_hangs_up(
    shops: Shops, server: Callable[..., ImpatientServer], batch: int, pipelining: bool
) -> None:
    """Our address is on a blocklist; the server says so to each recipient until it has enough."""
    to = [[f"r{n}-{place}@d{n}.example" for place in range(3)] for n in range(11)]
    with server(lambda _: BLOCKED, pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp, OUTBOX_BATCH=batch, OUTBOX_WINDOW=min(batch, 20))
        ids = [shop.enqueue(*three).id for three in to]
        drain(shop.runtime)
        [breaker] = shop.rows(shop.tables.breaker)
        assert (breaker.state, bool(breaker.alert)) == ("open", True)
        found = Counter(row.status for row in shop.rows(shop.tables.recipient))
        assert found == Counter(pending=33)
        assert {(shop.email_row(one).status, shop.email_row(one).attempts) for one in ids} == {
            ("pending", 0)
        }
        if batch == 100:  # the server is found out before anything is recorded
            assert shop.count(shop.tables.attempt) == 0
        smtp.says = lambda _: OK
        go_on(shop, seconds=5 * MINUTE)
        assert shop.statuses() == ["sent"] * 11
    assert smtp.copies == Counter(address for three in to for address in three)


@pytest.mark.long
@pytest.mark.matrix
@PIPELINING
@pytest.mark.parametrize("batch", [100, 2], ids=["in one batch", "in several"])
def test_a_server_that_takes_others_beside_them_does_not_refuse_everybody(
    shops: Shops, batch: int, pipelining: bool
) -> None:
    with strict(partial(says, DENIED), pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp, OUTBOX_BATCH=batch, OUTBOX_WINDOW=min(batch, 20))
        for number in range(12):
            shop.enqueue(f"good@{number}.example", f"bad@{number}.example")
        drain(shop.runtime)
        assert shop.count(shop.tables.breaker) == 0
        statuses = Counter(row.status for row in shop.rows(shop.tables.recipient))
        assert statuses == Counter(pending=12, failed=12)


def test_a_server_that_takes_no_session_after_it_has_hung_up_has_refused_them_all_the_same(
    shops: Shops,
) -> None:
    with exim(partial(says, NO)) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue("bad@x.example", "good@x.example")
        smtp.sessions = 1
        drain(shop.runtime)
        assert shop.recipients(email.id) == {"bad@x.example": "failed", "good@x.example": "pending"}
        smtp.sessions = 100
        go_on(shop, seconds=5 * MINUTE)
        assert shop.email_row(email.id).status == "sent"
    assert (smtp.asked["bad@x.example"], smtp.copies) == (1, Counter(["good@x.example"]))


def test_a_server_that_hangs_up_on_the_refused_clears_up_nothing_for_another_email(
    shops: Shops,
) -> None:
    """It halted that one too: whose fault it is, is not known."""
    with StatefulServer({"MAIL": FULL, "RCPT": NO, "RCPT 2": FULL}) as smtp:
        shop = shops.open(MAIL_PORT=smtp.port)
        halted = shop.enqueue("halted@y.example")
        email = shop.enqueue("bad@x.example", "good@x.example")
        drain(shop.runtime)
    assert not smtp.unused
    row = shop.email_row(halted.id)
    assert (row.status, row.attempts, row.waited) == ("pending", 0, 5)
    assert list(shop.recipients(email.id).values()) == ["failed", "pending"]
    [breaker] = shop.rows(shop.tables.breaker)
    assert (breaker.state, breaker.suspect_id) == ("suspected", halted.id)


def test_who_is_in_doubt_and_refused_makes_no_email_shorter_so_it_is_judged_as_any_other(
    shops: Shops,
) -> None:
    """A copy may have come through before: they stay in doubt, and the 421 is charged."""
    answers: dict[str, Answer] = {"RCPT 2": "450 4.2.0 later", ".": hang_up}
    with StatefulServer(answers) as smtp:
        shop = shops.open(MAIL_PORT=smtp.port)
        shop.runtime.random = lambda: 0.5
        email = shop.enqueue("doubtful@x.example", "waiting@x.example")
        drain(shop.runtime)
        smtp.unused |= {"RCPT 3": NO, "RCPT 4": FULL}
        shop.later(HOUR)
        shop.enqueue("behind@x.example")
        drain(shop.runtime)
    assert not smtp.unused
    row = shop.email_row(email.id)
    assert (row.status, row.attempts, row.unknown_count) == ("pending", 2, 1)
    assert list(shop.recipients(email.id).values()) == ["unknown", "pending"]


@pytest.mark.matrix
@PIPELINING
@pytest.mark.parametrize("reply", [GMAIL, SES, "530 5.7.0 Authentication required"])
@pytest.mark.parametrize("order", [("good", "bad"), ("bad", "good")], ids=str)
def test_a_throttle_that_one_recipient_meets_is_their_own_where_another_is_taken(
    shops: Shops, order: tuple[str, ...], reply: str, pipelining: bool
) -> None:
    with postfix(partial(says, reply), pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue(*(f"{name}@x.example" for name in order))
        drain(shop.runtime)
        row = shop.email_row(email.id)
        assert (row.status, row.attempts) == ("pending", 1)
        assert shop.recipients(email.id) == {"good@x.example": "sent", "bad@x.example": "pending"}
        assert shop.count(shop.tables.breaker) == 0
        smtp.says = lambda _: OK
        shop.later(HOUR)
        drain(shop.runtime)
        assert shop.email_row(email.id).status == "sent"
    assert smtp.copies == Counter(["good@x.example", "bad@x.example"])


@pytest.mark.matrix
@PIPELINING
@pytest.mark.parametrize("reply", [TOO_MANY, GODADDY])
def test_a_limit_on_the_client_is_nobodys_own_behind_who_was_accepted(
    shops: Shops, reply: str, pipelining: bool
) -> None:
    with postfix(partial(says, reply), pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue("good@x.example", "bad@x.example")
        drain(shop.runtime)
        row = shop.email_row(email.id)
        assert (row.status, row.attempts) == ("pending", 0)
        assert shop.recipients(email.id) == {"good@x.example": "sent", "bad@x.example": "pending"}
        smtp.says = lambda _: OK
        shop.later(HOUR)
        drain(shop.runtime)
        row = shop.email_row(email.id)
        assert (row.status, row.attempts) == ("sent", 1)
    assert smtp.copies == Counter(["good@x.example", "bad@x.example"])
