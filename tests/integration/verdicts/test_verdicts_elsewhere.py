"""Rows of the verdict table that servers of others can play: Postfix's smtp-sink and aiosmtpd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from outbox.domain.delivery.transaction import Phase, Verdict
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.smtp_sink import SmtpSink
from tests.support.shop.shop import Shop, Shops, message
from tests.support.verdicts.case import AT, OUTCOMES

pytestmark = pytest.mark.databases("sqlite")

DAY = 86_400.0
SOFT = ("-b", "450 4.2.0 later")
HARD = ("-B", "550 5.7.1 no")


@dataclass(frozen=True, kw_only=True)
class Played:
    """smtp-sink's options, and what comes of every email that meets them."""

    options: tuple[str, ...]
    verdict: Verdict
    phase: Phase = AT.DOT
    code: int = 0
    enhanced: str = ""
    emails: int = 100  # over one connection

    @property
    def id(self) -> str:
        return " ".join(self.options)


def soft(command: str, verdict: Verdict, phase: Phase) -> Played:
    return Played(
        options=("-r", command, *SOFT), verdict=verdict, phase=phase, code=450, enhanced="4.2.0"
    )


def hard(command: str, verdict: Verdict, phase: Phase) -> Played:
    return Played(
        options=("-f", command, *HARD), verdict=verdict, phase=phase, code=550, enhanced="5.7.1"
    )


def closing(command: str, phase: Phase) -> Played:
    halted = Verdict.HALT if phase in (AT.GREETING, AT.EHLO) else Verdict.SUSPECT
    return Played(options=("-Q", command), verdict=halted, phase=phase, code=421)


def gone(command: str, verdict: Verdict, phase: Phase) -> Played:
    return Played(options=("-q", command), verdict=verdict, phase=phase)


BY_SMTP_SINK = (
    soft("CONNECT", Verdict.HALT, AT.GREETING),
    hard("CONNECT", Verdict.HALT, AT.GREETING),
    closing("CONNECT", AT.GREETING),
    gone("CONNECT", Verdict.HALT, AT.GREETING),
    soft("EHLO", Verdict.HALT, AT.EHLO),
    Played(options=("-f", "EHLO"), verdict=Verdict.SENT, code=250, enhanced="2.0.0"),
    hard("EHLO,HELO", Verdict.HALT, AT.EHLO),
    closing("EHLO", AT.EHLO),
    gone("EHLO", Verdict.HALT, AT.EHLO),
    # It says 4.3.0.
    Played(options=("-r", "MAIL"), verdict=Verdict.SUSPECT, phase=AT.MAIL, code=450),
    hard("DATA,RSET", Verdict.FAIL, AT.DATA),
    *(
        played
        for command, lost, phase in (
            ("MAIL", Verdict.UNSENT, AT.MAIL),
            ("RCPT", Verdict.UNSENT, AT.RCPT),
            ("DATA", Verdict.UNSENT, AT.DATA),
            (".", Verdict.UNKNOWN, AT.DOT),
        )
        for played in (
            soft(command, Verdict.RETRY, phase),
            hard(command, Verdict.FAIL, phase),
            closing(command, phase),
            gone(command, lost, phase),
        )
    ),
    *(
        Played(options=(option, "QUIT"), verdict=Verdict.SENT, code=250, enhanced="2.0.0", emails=1)
        for option in ("-q", "-Q", "-r", "-f")
    ),
)


FIRST = {played.verdict: played.id for played in reversed(BY_SMTP_SINK)}
"""One case of each verdict: `make test` plays these."""


def quick(played: Played) -> Any:
    """Leave all but the first case of a verdict to `make test-all`."""
    is_first = FIRST[played.verdict] == played.id
    return pytest.param(played, id=played.id, marks=() if is_first else pytest.mark.long)


@pytest.mark.long
@pytest.mark.parametrize("played", [quick(played) for played in BY_SMTP_SINK])
def test_smtp_sink_plays_the_row_to_two_emails_and_then_takes_what_is_left(
    played: Played, shops: Shops
) -> None:
    with SmtpSink(*played.options) as sink:
        shop = shops.open(MAIL_PORT=sink.port, OUTBOX_CONNECTION_EMAILS=played.emails)
        for name in "ab":
            shop.enqueue(f"{name}@x.example")
        drain(shop.runtime)
        expect(shop, played)
        sink.stop()
        sink.options = ()
        sink.start()
        shop.later(DAY)
        drain(shop.runtime)
        left = 2 if OUTCOMES[played.verdict].status == "pending" else 0
        assert sink.accepted() == left
    assert set(shop.statuses()) == {"failed" if played.verdict is Verdict.FAIL else "sent"}
    assert shop.count(shop.tables.breaker) == shop.count(shop.tables.lease) == 0


def expect(shop: Shop, played: Played) -> None:
    # Two that are halted, and none that is taken: it is the server, and nobody is charged.
    halts = played.verdict in (Verdict.HALT, Verdict.SUSPECT, Verdict.UNSENT)
    want = OUTCOMES[Verdict.HALT if halts else played.verdict]
    for row in shop.rows(shop.tables.email):
        assert (row.status, row.attempts, row.crashes, row.unknown_count) == (
            (want.status, want.attempts, want.crashes, want.unknown_count)
        )
    breakers, log = shop.rows(shop.tables.breaker), shop.rows(shop.tables.attempt)
    if halts:
        assert [(row.failures, bool(row.alert)) for row in breakers] == [(1, False)]
        assert breakers[0].reason.startswith(f"{played.phase}: {played.code} ")
        charged = 2 if played.verdict is Verdict.SUSPECT else 0
        assert [row.verdict for row in log] == ["suspect"] * charged
        return
    assert not breakers
    assert [(row.verdict, row.phase, row.code, row.enhanced) for row in log] == [
        (played.verdict, played.phase, played.code, played.enhanced)
    ] * 2


BY_AIOSMTPD = (
    ("recipient", "450 4.2.0 later", Verdict.RETRY, AT.RCPT),
    ("recipient", "451 4.7.1 Greylisted, try again in 5 minutes", Verdict.RETRY, AT.RCPT),
    ("recipient", "550 5.1.1 unknown", Verdict.FAIL, AT.RCPT),
    ("recipient", "530 5.7.0 no", Verdict.SUSPECT, AT.RCPT),
    ("content", "251 2.1.5 forwarded", Verdict.SENT, AT.DOT),
    ("content", "451 4.3.0 later", Verdict.RETRY, AT.DOT),
    ("content", "554 5.7.1 spam", Verdict.FAIL, AT.DOT),
    ("content", "421 4.3.2 closing", Verdict.SUSPECT, AT.DOT),
    ("content", "354 go on", Verdict.UNKNOWN, AT.DOT),
)


@pytest.mark.parametrize(("point", "reply", "verdict", "phase"), BY_AIOSMTPD)
def test_aiosmtpd_plays_the_row_to_one_email_and_takes_the_next(
    sending: Shop, catcher: Catcher, point: str, reply: str, verdict: Verdict, phase: Phase
) -> None:
    left = [reply]
    answer = lambda _: left.pop() if left else None  # noqa: E731
    if point == "recipient":
        catcher.reply_to_recipient = answer
    else:
        catcher.reply_to_content = answer
    email, behind = sending.enqueue("a@x.example"), sending.enqueue("b@x.example")
    drain(sending.runtime)
    row, want = sending.email_row(email.id), OUTCOMES[verdict]
    assert (row.status, row.attempts, row.unknown_count) == (
        want.status,
        want.attempts,
        want.unknown_count,
    )
    table = sending.tables.attempt
    log = sending.rows(table, table.c.email_id == email.id)
    assert sending.status(behind.id) == "sent"
    [attempt] = log
    charged = Verdict.RETRY if verdict is Verdict.SUSPECT else verdict
    assert (attempt.verdict, attempt.phase) == (charged, phase)
    assert f"{attempt.code} {attempt.enhanced} {attempt.reply}".replace("  ", " ") == reply
    sending.later(DAY)
    drain(sending.runtime)
    assert sending.statuses() == ["failed" if verdict is Verdict.FAIL else "sent", "sent"]
    assert set(catcher.copies().values()) == {1}


def test_a_name_that_does_not_resolve_charges_nobody(shops: Shops) -> None:
    shop = shops.open(MAIL_SERVER="fe80::1%no-such-interface")  # asks no name server
    with shop.session() as session:
        email = shop.outbox.enqueue(message(), session=session)
        session.commit()
    drain(shop.runtime)
    row = shop.email_row(email.id)
    assert (row.status, row.attempts, row.crashes) == ("pending", 0, 0)
    [breaker] = shop.rows(shop.tables.breaker)
    assert breaker.reason.startswith("connect: 0 gaierror")
    assert shop.count(shop.tables.attempt) == shop.count(shop.tables.lease) == 0
