"""Rows of the verdict table in dialogues that only a client that pipelines can have (RFC 2920)."""

from __future__ import annotations

from functools import partial

import pytest

from outbox.domain.delivery.reply_table import Event
from outbox.domain.delivery.transaction import Verdict
from outbox.worker.drain import drain
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import Step, close
from tests.support.servers.smtp.stateful import EXTENSIONS, Answer, Says, hang_up
from tests.support.shop.shop import Shops
from tests.support.verdicts import rows
from tests.support.verdicts.case import AT, LATER, NO, QUEUED, Case, Following, TableRow, case
from tests.support.verdicts.play import DAY, on_stage, play

pytestmark = pytest.mark.databases("sqlite")

GO = "354 go on"
SHORT = {"OUTBOX_COMMAND_TIMEOUT": 2.0}


def wait_for(octets: bytes) -> Step:
    """Read nothing as a command before these octets have come."""

    def step(dialogue: Dialogue) -> None:
        while octets not in dialogue.data:
            dialogue.receive()

    return step


def hello(then: Step) -> Says:
    """Answer EHLO with all extensions, and do a step before the next command is read."""
    lines = ["stateful.example", *EXTENSIONS]
    return Says(reply="\n".join(f"250-{line}" for line in lines) + "\n250 PIPELINING", then=then)


IN_ONE_WRITE = {"EHLO": hello(wait_for(b"\r\nDATA\r\n"))}
NEXT_IN_FLIGHT = {"BODY": wait_for(b"\r\n.\r\nMAIL FROM:")}
ONE_WRITE = (
    rows.dot_accepted(
        "MAIL, RCPT and DATA come without a wait for any reply",
        IN_ONE_WRITE,
        reply=QUEUED,
        config=SHORT,
    ),
    case(
        TableRow.RCPT_REFUSED,
        "in the middle, behind DATA in the same write",
        {**IN_ONE_WRITE, "RCPT 2": NO, "RCPT 3": LATER},
        **rows.DELIVERED,
        **rows.GOES_AGAIN,
        recipients=(rows.TAKEN, rows.REFUSED, rows.PUT_OFF, rows.TAKEN),
        config=SHORT,
    ),
    rows.dot_accepted(
        "the next envelope comes behind the content", NEXT_IN_FLIGHT, reply=QUEUED, config=SHORT
    ),
    rows.dot_closed(
        "closed with the next envelope in flight", {**NEXT_IN_FLIGHT, ".": hang_up}, config=SHORT
    ),
    rows.dot_closed(
        "closed with the next envelope unread: the client meets a reset",
        {**NEXT_IN_FLIGHT, ".": close},
        config=SHORT,
    ),
    rows.idle(
        "closed after the verdict, with the next envelope in flight",
        {**NEXT_IN_FLIGHT, ".": Says(reply=QUEUED, then=hang_up)},
        config=SHORT,
    ),
    rows.lost_early(
        "closed after MAIL with the rest unread",
        {**IN_ONE_WRITE, "MAIL": close},
        phase=AT.MAIL,
        event=Event.CLOSED,
        text="onnection",  # reset or closed, as the kernel says, and no time-out
        config=SHORT,
    ),
)

lone_dot = partial(case, TableRow.DATA_REFUSED, phase=AT.RCPT)
LONE_DOT = (
    *(
        lone_dot(
            f"354 though all were refused; the lone dot is answered {answer[:3]}",
            {"RCPT": NO, "DATA": GO, ".": answer},
            Verdict.FAIL,
            reply=NO,
            following=Following.EITHER,
        )
        for answer in ("554 5.5.1 no valid recipients", "503 5.5.1 what", QUEUED)
    ),
    lone_dot(
        "354 though all were put off",
        {"RCPT": LATER, "DATA": GO, ".": "554 5.5.1 no valid recipients"},
        Verdict.RETRY,
        reply=LATER,
        following=Following.EITHER,
    ),
    lone_dot(
        "354 though all were refused; closed at the lone dot",
        {"RCPT": NO, "DATA": GO, ".": hang_up},
        Verdict.FAIL,
        reply=NO,
        **rows.NEW,
    ),
)


@pytest.mark.parametrize("case", ONE_WRITE, ids=lambda case: case.id)
def test_what_is_in_flight_when_a_reply_comes_changes_no_verdict(case: Case, shops: Shops) -> None:
    play(case, shops, pipelining=True)


@pytest.mark.parametrize("case", LONE_DOT, ids=lambda case: case.id)
def test_a_354_that_nobody_should_have_given_gets_a_lone_dot_and_the_email_was_not_sent(
    case: Case, shops: Shops
) -> None:
    with on_stage(case, shops, pipelining=True) as stage:
        drain(stage.shop.runtime)
        assert stage.server.bodies[0] == b".\r\n"
        assert stage.server.copies().keys() == {
            ("behind@x.example", stage.stored(stage.behind)),
        }
        assert stage.shop.statuses() == [case.outcome.status, "sent"]


@pytest.mark.parametrize("case", LONE_DOT, ids=lambda case: case.id)
def test_after_a_lone_dot_the_verdict_stands_and_the_next_email_goes_out(
    case: Case, shops: Shops
) -> None:
    play(case, shops, pipelining=True)


def test_no_content_follows_a_354_after_a_refused_email(shops: Shops) -> None:
    """No real server does so; whatever the client does, nobody gets the email."""
    answers: dict[str, Answer] = {"MAIL": "550 5.1.8 no", "RCPT": "250 2.1.5 ok", "DATA": GO}
    refused = case(TableRow.MAIL_REFUSED, "354", answers, Verdict.FAIL, AT.MAIL, "550 5.1.8 no")
    with on_stage(refused, shops, pipelining=True) as stage:
        drain(stage.shop.runtime)
        assert stage.shop.statuses() == ["failed", "sent"]
        assert not any(body.startswith(stage.stored(stage.mail)) for body in stage.server.bodies)


def test_a_reply_too_many_makes_no_email_sent_that_is_not_and_no_second_copy(shops: Shops) -> None:
    """The stray reply stands before those to the envelope in flight: out of step, and closed."""
    stray: dict[str, Answer] = {".": "250 2.0.0 queued\n250 2.0.0 again"}
    accepted = rows.dot_accepted("stray", stray, reply=QUEUED)
    with on_stage(accepted, shops, pipelining=True) as stage:
        drain(stage.shop.runtime)
        assert stage.shop.status(stage.mail.id) == "sent"
        assert (stage.shop.status(stage.behind.id) == "sent") is bool(stage.accepted(stage.behind))
        stage.shop.later(DAY)
        drain(stage.shop.runtime)
        assert stage.shop.statuses() == ["sent", "sent"]
        assert set(stage.server.copies().values()) == {1}
        assert len(stage.server.copies()) == 2
