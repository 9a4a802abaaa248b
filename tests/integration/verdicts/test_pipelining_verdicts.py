"""Rows of the verdict table in dialogues that only a client that pipelines can have (RFC 2920)."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.domain.delivery.reply_table import Event
from outbox.worker.drain import drain
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import Step, close
from tests.support.servers.smtp.stateful import EXTENSIONS, Answer, Says, hang_up
from tests.support.shop.shop import Shops
from tests.support.verdicts.case import (
    AT,
    FAIL,
    RETRY,
    SENT,
    UNKNOWN,
    UNSENT,
    Case,
    Following,
    Recipient,
    TableRow,
    case,
)
from tests.support.verdicts.play import DAY, on_stage, play

pytestmark = pytest.mark.databases("sqlite")

EITHER: dict[str, Any] = {"following": Following.EITHER}
NEW: dict[str, Any] = {"following": Following.NEW}
QUEUED = "250 2.0.0 queued"
NO, LATER, GO = "550 5.1.1 unknown", "450 4.2.0 later", "354 go on"
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


ONE_WRITE = (
    case(
        TableRow.DOT_ACCEPTED,
        "MAIL, RCPT and DATA come without a wait for any reply",
        {"EHLO": hello(wait_for(b"\r\nDATA\r\n"))},
        SENT,
        AT.DOT,
        QUEUED,
        config=SHORT,
    ),
    case(
        TableRow.RCPT_REFUSED,
        "in the middle, behind DATA in the same write",
        {"EHLO": hello(wait_for(b"\r\nDATA\r\n")), "RCPT 2": NO, "RCPT 3": LATER},
        SENT,
        AT.DOT,
        QUEUED,
        status="pending",
        delay=15.0,
        recipients=(
            Recipient(status="sent"),
            Recipient(status="failed", reply=NO),
            Recipient(status="pending", reply=LATER),
            Recipient(status="sent"),
        ),
        config=SHORT,
    ),
    case(
        TableRow.DOT_ACCEPTED,
        "the next envelope comes behind the content",
        {"BODY": wait_for(b"\r\n.\r\nMAIL FROM:")},
        SENT,
        AT.DOT,
        QUEUED,
        config=SHORT,
    ),
    case(
        TableRow.DOT_SILENT,
        "closed with the next envelope in flight",
        {"BODY": wait_for(b"\r\n.\r\nMAIL FROM:"), ".": hang_up},
        UNKNOWN,
        AT.DOT,
        event=Event.CLOSED,
        config=SHORT,
    ),
    case(
        TableRow.DOT_SILENT,
        "closed with the next envelope unread: the client meets a reset",
        {"BODY": wait_for(b"\r\n.\r\nMAIL FROM:"), ".": close},
        UNKNOWN,
        AT.DOT,
        event=Event.CLOSED,
        config=SHORT,
    ),
    case(
        TableRow.IDLE,
        "closed after the verdict, with the next envelope in flight",
        {"BODY": wait_for(b"\r\n.\r\nMAIL FROM:"), ".": Says(reply=QUEUED, then=hang_up)},
        SENT,
        AT.DOT,
        QUEUED,
        config=SHORT,
        **NEW,
    ),
    case(
        TableRow.LOST_EARLY,
        "closed after MAIL with the rest unread",
        {"EHLO": hello(wait_for(b"\r\nDATA\r\n")), "MAIL": close},
        UNSENT,
        AT.MAIL,
        event=Event.CLOSED,
        text="onnection",  # reset or closed, as the kernel says, and no time-out
        config=SHORT,
    ),
)

LONE_DOT = (
    *(
        case(
            TableRow.DATA_REFUSED,
            f"354 though all were refused; the lone dot is answered {answer[:3]}",
            {"RCPT": NO, "DATA": GO, ".": answer},
            FAIL,
            AT.RCPT,
            NO,
            **EITHER,
        )
        for answer in ("554 5.5.1 no valid recipients", "503 5.5.1 what", QUEUED)
    ),
    case(
        TableRow.DATA_REFUSED,
        "354 though all were put off",
        {"RCPT": LATER, "DATA": GO, ".": "554 5.5.1 no valid recipients"},
        RETRY,
        AT.RCPT,
        LATER,
        **EITHER,
    ),
    case(
        TableRow.DATA_REFUSED,
        "354 though all were refused; closed at the lone dot",
        {"RCPT": NO, "DATA": GO, ".": hang_up},
        FAIL,
        AT.RCPT,
        NO,
        **NEW,
    ),
)


@pytest.mark.parametrize("case", ONE_WRITE, ids=lambda case: case.id)
def test_what_is_in_flight_when_a_reply_comes_changes_no_verdict(case: Case, shops: Shops) -> None:
    play(case, shops, pipelining=True)


@pytest.mark.parametrize("case", LONE_DOT, ids=lambda case: case.id)
def test_a_354_that_nobody_should_have_given_gets_a_lone_dot_and_the_mail_was_not_sent(
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
def test_after_a_lone_dot_the_verdict_stands_and_the_next_mail_goes_out(
    case: Case, shops: Shops
) -> None:
    play(case, shops, pipelining=True)


def test_no_content_follows_a_354_after_a_refused_mail(shops: Shops) -> None:
    """No real server does so; whatever the client does, nobody gets the email."""
    answers: dict[str, Answer] = {"MAIL": "550 5.1.8 no", "RCPT": "250 2.1.5 ok", "DATA": GO}
    refused = case(TableRow.MAIL_REFUSED, "354", answers, FAIL, AT.MAIL, "550 5.1.8 no")
    with on_stage(refused, shops, pipelining=True) as stage:
        drain(stage.shop.runtime)
        assert stage.shop.statuses() == ["failed", "sent"]
        assert not any(body.startswith(stage.stored(stage.mail)) for body in stage.server.bodies)


def test_a_reply_too_many_makes_no_mail_sent_that_is_not_and_no_second_copy(shops: Shops) -> None:
    """The stray reply stands before those to the envelope in flight: out of step, and closed."""
    stray: dict[str, Answer] = {".": "250 2.0.0 queued\n250 2.0.0 again"}
    accepted = case(TableRow.DOT_ACCEPTED, "stray", stray, SENT, AT.DOT, QUEUED)
    with on_stage(accepted, shops, pipelining=True) as stage:
        drain(stage.shop.runtime)
        assert stage.shop.status(stage.mail.id) == "sent"
        assert (stage.shop.status(stage.behind.id) == "sent") is bool(stage.accepted(stage.behind))
        stage.shop.later(DAY)
        drain(stage.shop.runtime)
        assert stage.shop.statuses() == ["sent", "sent"]
        assert set(stage.server.copies().values()) == {1}
        assert len(stage.server.copies()) == 2
