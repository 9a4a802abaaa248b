"""What was seen from outside: one email, or one class of them, that stopped all others for days."""

from __future__ import annotations

from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest

from outbox import Priority
from outbox.domain.delivery.transaction import Phase
from outbox.store.records import Claim
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.sweep import sweep
from tests.integration.blame.cases import Case, Kind, Servers, part
from tests.integration.blame.emails import LARGE
from tests.integration.blame.play import GIVEN_UP, LATEST, play, world, write
from tests.integration.blame.server import EXTENSIONS, ClassServer, Habit, time_out
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.stateful import hang_up
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shops, addresses, message, newsletter

pytestmark = [pytest.mark.over_and_over, pytest.mark.databases("sqlite")]

CLOSING = "421 4.3.2 closing"
TOO_FAST = "450 4.2.1 The user is receiving mail at a rate that is too high"
DENIED = "554 5.7.1 <readers>: Recipient address rejected: Access denied"
WEAK = tuple(e for e in EXTENSIONS if e != "8BITMIME")
HOUR, DAY = 3600.0, 86_400.0
FAST = "fast@shop.example"
SEEN = {
    "no room for one large email": (Phase.MAIL, "452 4.3.1 Insufficient storage", Kind.SIZE),
    "one domain is closed": (Phase.RCPT, "421 4.7.0 Try again later", Kind.DOMAIN),
    "one sender is too fast": (Phase.MAIL, "450 4.7.0 rate limit exceeded", Kind.SENDER),
}


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("servers", [Servers.ONE, Servers.BOTH], ids=str)
@pytest.mark.parametrize("seen", SEEN)
def test_one_email_that_is_halted_each_time_stops_no_other(
    seen: str, servers: Servers, shops: Shops
) -> None:
    phase, reply, kind = SEEN[seen]
    case = Case(part=part(phase, reply), kind=kind, servers=servers, good=50, bad=1)
    play(case, shops)


@pytest.mark.long
@pytest.mark.parametrize(("refused", "good"), [(10, 200), (210, 50)])
def test_emails_in_a_row_to_a_domain_that_refuses_us_stop_no_other(
    refused: int, good: int, shops: Shops
) -> None:
    case = Case(part=part(Phase.RCPT, DENIED), kind=Kind.DOMAIN, good=good, bad=refused)
    play(case, shops)


@pytest.mark.long
def test_an_email_that_is_not_tried_as_all_like_it_are_halted_does_not_end_by_that(
    shops: Shops,
) -> None:
    """Two mailboxes are too fast. A third one has sender, domain and size in common with them.

    An email to another domain waits each time, so that never the server is said to be to blame.
    """
    server = ClassServer(Habit(phase=Phase.RCPT, answer=TOO_FAST))
    server.refuses = lambda seen: seen.recipients[0].startswith("full")
    with world(shops, server, OUTBOX_LIFETIME=100.0, OUTBOX_SLOTS=1) as made:
        write(made, *map(message, ("full1@one.example", "full2@one.example")))
        write(made, message("good@one.example"), tag="good")
        for _ in range(25):
            write(made, message("r@readers.example"), tag="others", priority=Priority.BULK)
            made.simulation.run(seconds=0.0, gives_up=DAY)
            made.simulation.pass_time(5.0)
        assert {row.status for row in made.emails("others")} == {"sent"}
        assert [row.status for row in made.emails("bad")] == ["failed", "failed"]
        assert [row.status for row in made.emails("good")] == ["sent"]
        assert made.waits("good")[0] <= LATEST
        assert made.emails("good")[0].attempts == 1


def test_what_was_halted_before_all_are_refused_alike_is_not_charged_either(shops: Shops) -> None:
    """A 421, and then to each email the same refusal: nobody was judged for itself."""

    def answer(dialogue: Dialogue) -> None:
        if server.refused == 1:
            dialogue.say(CLOSING)
            hang_up(dialogue)
        dialogue.say(DENIED)

    server = ClassServer(Habit(phase=Phase.RCPT, answer=answer))
    with world(shops, server) as made:
        write(made, *(message(f"r@d{number}.example") for number in range(12)))
        made.simulation.run(seconds=0.0, gives_up=DAY)
        assert server.refused == 12, "one is tried over a new session; then the breaker is open"
        assert {(row.status, row.attempts) for row in made.emails("bad")} == {("pending", 0)}


@pytest.mark.parametrize("answer", [CLOSING, DENIED])
def test_an_email_of_a_paused_priority_speaks_for_no_server(answer: str, shops: Shops) -> None:
    """It differs from all that are halted, or refused alike, and nobody can try it."""
    server = ClassServer(Habit(phase=Phase.RCPT, answer=answer))
    other = newsletter()
    other.replace_header("From", "news@shop.example")
    other["To"] = "r@readers.example"
    with world(shops, server) as made:
        runner(made.shop)("pause", "bulk")
        write(made, other, tag="others", priority=Priority.BULK)
        write(made, *(message(f"c{number}@d{number % 2}.example") for number in range(20)))
        made.simulation.run(seconds=0.0, gives_up=DAY)
        [breaker] = made.shop.rows(made.shop.tables.breaker)
        assert breaker.state == "open"
        assert {(row.status, row.attempts) for row in made.emails("bad")} == {("pending", 0)}


@pytest.mark.long
@pytest.mark.parametrize("bad", [1, 10])
def test_several_classes_that_are_halted_at_the_same_time_stop_no_other(
    bad: int, shops: Shops
) -> None:
    """Two that are halted in a row have nothing in common then, and the server takes all others."""
    server = ClassServer(Habit(phase=Phase.RCPT, answer="421 4.7.0 Try again later"))
    server.refuses = lambda seen: (
        seen.sender == FAST or "closed.example" in seen.domains or seen.size > LARGE // 2
    )
    with world(shops, server, OUTBOX_LIFETIME=HOUR) as made:
        for number in range(bad):
            closed = message(f"r{number}@closed.example")
            fast, large = message(f"f{number}@b.example"), message(f"l{number}@c.example")
            fast.replace_header("From", FAST)
            large.set_content("Thank you for your order.\n" * (LARGE // 20))
            write(made, closed, fast, large)
        write(made, readers=200)
        made.simulation.run(seconds=2 * HOUR, gives_up=GIVEN_UP)
        assert {(row.status, row.attempts) for row in made.emails("good")} == {("sent", 1)}
        assert max(made.waits("good")) <= LATEST
        assert {row.status for row in made.emails("bad")} == {"failed"}


def eightbit(*to: str) -> EmailMessage:
    """Return an email that needs 8BITMIME: it is signed, so that nothing may encode it."""
    mail = message(*to)
    mail.set_content("Gr\u00fc\u00dfe", cte="8bit")
    mail["DKIM-Signature"] = "v=1; d=shop.example; h=from; bh=x; b=y"
    return mail


def weak(how: str) -> ClassServer:
    """Return a server without 8BITMIME."""
    server = ClassServer(extensions=WEAK)
    server.knows_ehlo = how == "EHLO"
    return server


@pytest.mark.long
@pytest.mark.parametrize("how", ["EHLO", "HELO"])
def test_an_email_that_needs_more_than_its_server_offers_waits_with_an_alert(
    how: str, shops: Shops
) -> None:
    server = weak(how)
    with world(shops, server, OUTBOX_LIFETIME=DAY) as made:
        write(made, eightbit(), readers=50)
        made.simulation.run(seconds=3600, gives_up=LATEST)
        assert {row.status for row in made.emails("good")} == {"sent"}
        [waiting] = made.emails("bad")
        assert (waiting.status, waiting.attempts) == ("pending", 0)
        health = parsed(runner(made.shop)("health", "--json", code=1))
        assert [alert["server"] for alert in health["alerts"]] == ["a"]
        made.simulation.run(seconds=2 * DAY, gives_up=LATEST)
        assert made.emails("bad")[0].status == "failed"
        assert server.connections < 100


@pytest.mark.long
def test_emails_that_lack_the_same_are_not_charged_and_go_once_the_server_is_mended(
    shops: Shops,
) -> None:
    server = weak("HELO")
    with world(shops, server) as made:
        write(made, *map(eightbit, addresses(12)))
        made.simulation.run(seconds=7200, gives_up=DAY)
        assert {(row.status, row.attempts) for row in made.emails("bad")} == {("pending", 0)}
        runner(made.shop)("health", "--max-age", DAY, code=1)
        server.knows_ehlo, server.extensions = True, EXTENSIONS
        made.simulation.run(seconds=5 * 3600, gives_up=DAY)
        assert {(row.status, row.attempts) for row in made.emails("bad")} == {("sent", 1)}
        assert set(made.copies.values()) == {1}
        runner(made.shop)("health")


@pytest.mark.parametrize("how", ["EHLO", "HELO"])
def test_an_email_that_needs_more_than_its_server_offers_goes_over_the_next(
    how: str, shops: Shops
) -> None:
    second = ClassServer()
    with world(shops, weak(how), second) as made:
        write(made, eightbit("b@customers.example"), readers=50)
        made.simulation.run(seconds=DAY, gives_up=LATEST)
        assert {row.status for row in (*made.emails("good"), *made.emails("bad"))} == {"sent"}
        assert max(made.waits("good") + made.waits("bad")) <= LATEST
        assert second.copies == {"b@customers.example": 1}


def test_what_an_old_connection_was_not_offered_is_asked_for_anew(shops: Shops) -> None:
    """The server was set up anew meanwhile: with SMTPUTF8."""
    server = ClassServer(extensions=tuple(e for e in EXTENSIONS if e != "SMTPUTF8"))
    with world(shops, server) as made:
        write(made, readers=1)
        made.simulation.run(seconds=DAY, gives_up=LATEST)
        server.extensions = EXTENSIONS
        made.simulation.pass_time(20.0)
        write(made, message("jos\u00e9@customers.example"))
        made.simulation.run(seconds=DAY, gives_up=LATEST)
        [row] = made.emails("bad")
        assert (row.status, row.attempts) == ("sent", 1)
        assert made.waits("bad")[0] <= LATEST


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("hurry", ["urgent", "expiring"])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "among others"])
def test_what_is_in_a_hurry_probes_no_server_while_another_one_is_idle(
    hurry: str, alone: bool, shops: Shops
) -> None:
    """The first server was down; now it hangs at MAIL: who probes it waits for minutes."""
    first = ClassServer(Habit(phase=Phase.MAIL, answer=CLOSING))
    with world(shops, first, ClassServer()) as made:
        write(made, readers=20)
        made.simulation.run(seconds=DAY, gives_up=LATEST)
        first.habit = Habit(phase=Phase.MAIL, answer=time_out)
        first.senders.clear()
        made.simulation.pass_time(40.0)
        soon = made.simulation.now() + timedelta(minutes=15)
        options: dict[str, Any] = {"priority": Priority.URGENT}
        if hurry == "expiring":
            options = {"expires_at": soon}
        code = message("c@customers.example")
        code.replace_header("From", "codes@shop.example")
        with made.shop.session() as session:
            if not alone:
                to = addresses(20)
                made.shop.outbox.enqueue_many(newsletter(), to, session=session)
            made.shop.outbox.enqueue(code, session=session, tag="bad", **options)
            session.commit()
        made.simulation.run(seconds=DAY, gives_up=LATEST)
        assert first.senders["codes@shop.example"] == 0
        assert made.emails("bad")[0].status == "sent"
        assert made.waits("bad")[0] <= LATEST
        assert set(made.shop.statuses()) == {"sent"}


@pytest.mark.long
@pytest.mark.parametrize("pipelining", [False, True], ids=["in turn", "pipelined"])
def test_a_dialogue_that_is_slow_and_goes_on_keeps_its_lease(
    pipelining: bool, shops: Shops
) -> None:
    """Two dozen recipients: all of them take longer than the lease and the longest reply may."""
    server = ClassServer(extensions=(*EXTENSIONS, *(["PIPELINING"] if pipelining else [])))
    server.pause = 0.15
    patience: dict[str, Any] = {
        "OUTBOX_COMMAND_TIMEOUT": 0.9,
        "OUTBOX_DOT_TIMEOUT": 0.9,
        "OUTBOX_LEASE": 1.0,
    }
    with world(shops, server, **patience) as made:
        write(made, message(*addresses(24)))
        claims: list[Claim] = []
        sweep(made.shop.runtime, claims.append)
        assert send_batch(made.shop.runtime, claims[0].token).is_worth_a_sweep
        assert made.shop.statuses() == ["sent"]
        assert made.copies == dict.fromkeys(addresses(24), 1)
        assert server.senders.total() == 1
