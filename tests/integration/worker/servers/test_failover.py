"""When one server halts, the next takes the email in the same attempt, and nobody pays for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from outbox.domain.delivery.breaker_timing import Cause
from outbox.store.control import circuit_breaker
from outbox.store.control.counter import UNKNOWN
from tests.support.servers.ports import free_port
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.scripted import (
    AT_DATA,
    AT_DOT,
    AT_RCPT,
    GREET,
    HELLO,
    Script,
    ScriptedServer,
    close,
    content,
    expect,
    reset,
    say,
)
from tests.support.servers.smtp.stateful import EXTENSIONS, Answer, StatefulServer, hang_up
from tests.support.shop.shop import Shop, Shops, addresses, message
from tests.support.shop.steps.motion import Motion, attempts, halted, server, standing, write

pytestmark = pytest.mark.one_database("sqlite")

SENT = ("sent", 1, 0, 0)
UNTOUCHED = ("pending", 0, 0, 0)
AUTH = expect("EHLO", "250-scripted.example\n250 AUTH PLAIN")
LONG = ("x" * 70 + "\n") * 75_000  # more than any buffer on the way takes
THROTTLE = "450 4.2.1 The user is receiving mail at a rate that is too high"

HALTS: dict[str, Script] = {
    "greeting": (say("554 5.3.2 no service"), close),
    "EHLO": (GREET, expect("EHLO", "421 4.3.2 closing"), close),
    "AUTH": (GREET, AUTH, expect("AUTH", "535 5.7.8 wrong"), close),
    "MAIL": (*HELLO, expect("MAIL", "421 4.3.2 closing"), close),
    "RCPT": (*AT_RCPT, expect("RCPT", "421 4.3.2 closing"), close),
    "throttled at RCPT": (*AT_RCPT, expect("RCPT", THROTTLE), close),
    "DATA": (*AT_DATA, expect("DATA", "421 4.3.2 closing"), close),
    "the dot's reply": (*AT_DOT, content("421 4.3.2 closing"), close),
}
SESSIONS = ("greeting", "EHLO", "AUTH")


def pair(shops: Shops, a: int, b: int, **config: object) -> Shop:
    """Open a shop whose emails go over A, and over B where A cannot be used."""
    first = server("a", a, **({"username": "jo", "password": "x"} if config.pop("auth", 0) else {}))
    servers = [first, server("b", b, order=2)]
    return shops.open(OUTBOX_SERVERS=servers, OUTBOX_CLEARTEXT_AUTH=True, **config)


@pytest.fixture
def spare() -> Iterator[Catcher]:
    with Catcher() as second:
        yield second


@pytest.fixture
def both(shops: Shops, catcher: Catcher, spare: Catcher) -> Shop:
    """A shop on two servers: `catcher` is A and `spare` is B."""
    return pair(shops, catcher.port, spare.port)


def over_b(both: Shop, catcher: Catcher) -> Motion:
    """Stop A, and have an email go over B: from then on A is halted."""
    catcher.stop()
    motion = Motion(shop=both)
    write(both, 1)
    motion.beat()
    return motion


def back_up(both: Shop, catcher: Catcher) -> Motion:
    """Have A stop and start again: its breaker is open, and the pause is over."""
    motion = over_b(both, catcher)
    catcher.start()
    both.later(5.1)
    return motion


def copies(*catchers: Catcher) -> Counter[tuple[str, str]]:
    return sum((catcher.copies() for catcher in catchers), Counter())


@pytest.mark.parametrize("where", HALTS)
def test_an_email_whose_server_halts_goes_over_the_next_in_the_same_attempt(
    shops: Shops, catcher: Catcher, where: str
) -> None:
    with ScriptedServer(*[HALTS[where]] * 3) as halting:
        shop = pair(shops, halting.port, catcher.port, auth=where == "AUTH")
        write(shop, 5)
        assert Motion(shop=shop).beat() == 1
        asked = len(halting.dialogues)
    assert standing(shop) == {SENT: 5}
    assert attempts(shop) == {("b", "sent"): 5}
    assert halted(shop) == {"a"}
    assert copies(catcher) == dict.fromkeys(copies(catcher), 1)
    assert len(copies(catcher)) == 5
    assert asked == (1 if where in SESSIONS else 2), "two emails show that it is the server"
    assert shop.rows(shop.tables.breaker)[0].alert == (where == "AUTH")


def test_an_email_of_which_half_was_read_goes_over_the_next_server_whole(
    shops: Shops, catcher: Catcher
) -> None:
    with StatefulServer({"BODY": reset, "CONNECT 2": "421 4.3.2 closing"}) as first:
        shop = pair(shops, first.port, catcher.port)
        with shop.session() as session:
            shop.outbox.enqueue(message(text=LONG), session=session)
            session.commit()
        Motion(shop=shop).beat()
    assert (standing(shop), attempts(shop)) == ({SENT: 1}, {("b", "sent"): 1})
    assert (halted(shop), len(catcher.emails)) == ({"a"}, 1)


def test_a_server_that_refuses_connections_is_passed_over(shops: Shops, catcher: Catcher) -> None:
    shop = pair(shops, free_port(), catcher.port)
    write(shop, 3)
    Motion(shop=shop).beat()
    assert (standing(shop), attempts(shop)) == ({SENT: 3}, {("b", "sent"): 3})
    assert halted(shop) == {"a"}


@pytest.mark.parametrize("pipelining", [False, True])
def test_a_421_in_the_middle_of_a_batch_moves_the_rest_and_nothing_twice(
    shops: Shops, catcher: Catcher, pipelining: bool
) -> None:
    extensions = (*EXTENSIONS, *(["PIPELINING"] if pipelining else []))
    closing = dict.fromkeys(("MAIL 4", "CONNECT 2"), "421 4.3.2 closing")
    with StatefulServer(closing, extensions=extensions) as first:
        shop = pair(shops, first.port, catcher.port, OUTBOX_WINDOW=2)
        write(shop, 9)
        Motion(shop=shop).beat()
        over_a = [mail.recipients[0] for mail in first.accepted]
    over_b = [mail.recipients[0] for mail in catcher.emails]
    assert (over_a, over_b) == (addresses(9)[:3], addresses(9)[3:])
    assert standing(shop) == {SENT: 9}
    assert attempts(shop) == {("a", "sent"): 3, ("b", "sent"): 6}


def test_the_next_batch_goes_straight_to_the_server_that_is_up(
    both: Shop, catcher: Catcher, spare: Catcher
) -> None:
    catcher.stop()
    write(both, 2)
    motion = Motion(shop=both)
    motion.beat()
    catcher.start()
    write(both, 2)
    motion.beat()
    assert (catcher.sessions, len(spare.emails)) == (0, 4)


def test_after_its_pause_a_session_probes_the_server_while_the_other_takes_the_emails(
    both: Shop, catcher: Catcher, spare: Catcher
) -> None:
    motion = back_up(both, catcher)
    write(both, 6)
    probe, rest = motion.sweep()
    assert (probe.emails, rest.emails) == (0, 6)
    assert motion.sweep() == [], "one probe at a time"
    motion.waiting.reverse()
    assert motion.work()
    assert (len(catcher.emails), len(spare.emails)) == (0, 7), "A waits for its probe"
    assert halted(both) == {"a"}
    assert motion.work()
    assert (len(catcher.emails), len(spare.emails)) == (0, 7)
    assert halted(both) == set()
    assert standing(both) == {SENT: 7}
    assert copies(catcher, spare).total() == 7


def test_a_session_of_before_the_outage_is_no_probe(
    both: Shop, catcher: Catcher, spare: Catcher
) -> None:
    """A process that was idle has a connection that it does not know to be dead."""
    motion = Motion(shop=both)
    write(both, 1)
    motion.beat()
    assert len(catcher.emails) == 1
    catcher.stop()
    reason = "connect: refused"  # as another process found
    circuit_breaker.trip(both.database, "a", cause=Cause.SESSION, reason=reason)
    both.later(5.1)
    write(both, 1)
    motion.beat()
    [breaker] = both.rows(both.tables.breaker)
    assert (breaker.state, breaker.failures) == ("open", 2)


def test_a_failed_probe_holds_no_email_and_charges_nobody(
    both: Shop, catcher: Catcher, spare: Catcher
) -> None:
    motion = over_b(both, catcher)
    both.later(5.1)
    write(both, 1)
    probe, rest = motion.sweep()
    assert (probe.emails, rest.emails) == (0, 1)
    assert not motion.work()
    assert standing(both) == {SENT: 1, ("claimed", 0, 0, 0): 1}
    motion.beat()
    assert standing(both) == {SENT: 2}, "it goes over B"
    assert both.rows(both.tables.breaker)[0].failures == 2


def test_with_both_down_all_is_given_back_and_nothing_claimed_until_a_probe_is_due(
    both: Shop, catcher: Catcher, spare: Catcher
) -> None:
    catcher.stop()
    spare.stop()
    write(both, 30)
    motion = Motion(shop=both)
    assert motion.beat() == 2
    assert standing(both) == {UNTOUCHED: 30}
    assert halted(both) == {"a", "b"}
    assert (both.count(both.tables.attempt), both.count(both.tables.lease)) == (0, 0)
    both.later(4)
    assert motion.beat() == 0
    both.later(1.2)
    assert [claim.emails for claim in motion.sweep()] == [0, 0], "a probe each"
    while motion.waiting:
        motion.work()
    assert standing(both) == {UNTOUCHED: 30}
    assert motion.beat() == 0

    spare.start()
    both.later(10.1)
    motion.until_empty()
    assert standing(both) == {SENT: 30}
    assert copies(catcher, spare) == dict.fromkeys(copies(spare), 1)


def test_a_dead_prober_holds_up_neither_the_probe_nor_the_emails(
    both: Shop, catcher: Catcher, spare: Catcher
) -> None:
    motion = back_up(both, catcher)
    write(both, 3)
    motion.sweep()
    probe = motion.waiting.popleft()
    both.start(probe.token)  # and its worker dies
    motion.beat()
    assert standing(both)[SENT] == 4
    both.later(11)
    write(both, 1)
    motion.beat()
    assert (len(catcher.emails), halted(both)) == (0, {"a"}), "its lease may yet hold"
    motion.until_empty(step=20)
    assert standing(both) == {SENT: 5}
    assert halted(both) == {"a"}, "nothing waits, so nobody asks"
    for _ in range(3):  # its lease is suspected, and then rescued
        both.later(60)
        write(both, 1)
        motion.beat()
    assert halted(both) == set()
    assert copies(catcher, spare).total() == 8


def test_an_email_in_doubt_goes_over_no_other_server_in_the_same_attempt(
    shops: Shops, catcher: Catcher
) -> None:
    """A took the content and was gone: the rest goes over B, this email waits for its backoff."""
    with StatefulServer({". 2": hang_up}) as first:
        shop = pair(shops, first.port, catcher.port)
        write(shop, 4)
        motion = Motion(shop=shop)
        first.unused["CONNECT 2"] = "421 4.3.2 closing"
        motion.beat()
    assert standing(shop) == {SENT: 3, ("pending", 1, 0, 1): 1}
    assert attempts(shop) == {("a", "sent"): 1, ("a", "unknown"): 1, ("b", "sent"): 2}
    assert shop.counter(UNKNOWN) == 1
    # In any order: after a doubt that of emails that tell as much is random.
    assert sorted(mail.recipients[0] for mail in catcher.emails) == addresses(4)[2:]


def test_a_probe_that_ends_in_doubt_does_not_close_the_breaker(
    shops: Shops, catcher: Catcher
) -> None:
    halts = dict.fromkeys(("MAIL", "MAIL 2"), "421 4.3.2 closing")
    answers: dict[str, Answer] = {**halts, ".": hang_up}
    with StatefulServer(answers) as first:
        shop = pair(shops, first.port, catcher.port)
        write(shop, 2)
        motion = Motion(shop=shop)
        motion.beat()
        assert halted(shop) == {"a"}
        shop.later(5.1)
        write(shop, 1)
        motion.sweep()
        motion.work()
    assert attempts(shop)["a", "unknown"] == 1
    assert halted(shop) == {"a"}
