"""What a server offers of a session in its reply to EHLO (RFC 9422) is kept, and not tried out."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from outbox.domain.delivery.transaction import Phase, Transaction, Verdict
from outbox.smtp.connection import Connection
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.scripted import (
    GREET,
    Script,
    ScriptedServer,
    expect,
    handshake,
    serve,
)
from tests.support.servers.smtp.sessions import PIPELINING, PLAIN, SessionServer

if TYPE_CHECKING:
    from tests.support.servers.authority import Authority

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
EACH_WAY = pytest.mark.parametrize("extensions", [PLAIN, PIPELINING], ids=["plain", "pipelining"])
SENT, NEXT, FAIL, RETRY = Verdict.SENT, Verdict.NEXT, Verdict.FAIL, Verdict.RETRY


def send(server: SessionServer, *emails: tuple[str, ...], **changes: object) -> list[Transaction]:
    """Send an email to each of these groups of recipients; announce each behind the one before."""
    connection = Connection(server.settings(**changes))
    envelopes = [envelope(*recipients) for recipients in emails]
    results = [
        connection.send(email, CONTENT, lease_held, following)
        for email, following in pairwise([*envelopes, None])
        if email is not None
    ]
    connection.close()
    return results


def each(result: Transaction) -> list[Verdict]:
    return [one.verdict for one in result.recipients]


def to(*names: str) -> tuple[str, ...]:
    """Return addresses such as `a@x.example` for `a@x`."""
    return tuple(f"{name}.example" for name in names)


@EACH_WAY
@pytest.mark.parametrize("limits", ["LIMITS MAILMAX=2", "limits FUTURE mailmax=2 RCPTMAX=many"])
def test_a_session_gets_no_more_mail_commands_than_it_takes(
    extensions: tuple[str, ...], limits: str
) -> None:
    with SessionServer(extensions=(*extensions, limits)) as server:
        results = send(server, *[to(f"r{number}@x") for number in range(5)])
    assert [result.verdict for result in results] == [SENT] * 5
    assert server.mails == [2, 2, 1]


def test_a_mail_command_that_was_refused_counts() -> None:
    with SessionServer(
        {"MAIL": "550 5.1.8 no"},
        lambda talk: talk.mails == 1,
        extensions=(*PLAIN, "LIMITS MAILMAX=3"),
    ) as server:
        send(server, *[to(f"r{number}@x") for number in range(5)])
    assert server.mails == [3, 2]


@pytest.mark.parametrize(
    "limits", ["LIMITS", "LIMITS MAILMAX=0", "LIMITS MAILMAX=2x", "LIMITS MAILMAX=1000000"]
)
def test_a_limit_that_is_no_number_of_six_digits_is_none(limits: str) -> None:
    with SessionServer(extensions=(*PLAIN, limits)) as server:
        send(server, *[to(f"r{number}@x") for number in range(3)])
    assert server.mails == [3]


def test_a_limit_of_ours_that_is_lower_holds() -> None:
    with SessionServer(extensions=(*PLAIN, "LIMITS MAILMAX=3")) as server:
        send(server, *[to(f"r{number}@x") for number in range(3)], connection_emails=2)
    assert server.mails == [2, 1]


def test_the_limits_are_those_of_the_last_ehlo(authority: Authority) -> None:
    in_clear, under_tls = "250-x\n250-STARTTLS\n250 LIMITS MAILMAX=1", "250-x\n250 LIMITS MAILMAX=2"
    script: Script = (
        GREET,
        expect("EHLO", in_clear),
        expect("STARTTLS", "220 go on"),
        handshake(authority.server),
        expect("EHLO", under_tls),
        serve,
    )
    with ScriptedServer(script, script) as server:
        connection = Connection(server.settings(security="starttls", **authority.trusted))
        for _ in range(3):
            assert connection.send(envelope(), CONTENT, lease_held).verdict is SENT
        connection.close()
    assert [server.verbs(number).count("MAIL") for number in range(2)] == [2, 1]


@EACH_WAY
def test_a_transaction_names_no_more_recipients_than_it_may(extensions: tuple[str, ...]) -> None:
    with SessionServer(extensions=(*extensions, "LIMITS RCPTMAX=2")) as server:
        first, second, third = send(server, to("a@x"), to("b@x", "c@x", "d@x"), to("d@x"))
    assert (each(first), each(second), each(third)) == ([SENT], [SENT, SENT, NEXT], [SENT])
    assert [names for _, names in server.taken] == [to("a@x"), to("b@x", "c@x"), to("d@x")]
    assert server.mails == [3]


@EACH_WAY
def test_behind_a_part_of_an_email_its_rest_comes_and_no_other_email(
    extensions: tuple[str, ...],
) -> None:
    with SessionServer(extensions=(*extensions, "LIMITS RCPTMAX=2")) as server:
        connection = Connection(server.settings())
        part = connection.send(envelope(*to("a@x", "b@x", "c@x")), CONTENT, lease_held, envelope())
        rest = connection.send(envelope(*to("c@x")), CONTENT, lease_held)
        connection.close()
    assert (each(part), each(rest)) == ([SENT, SENT, NEXT], [SENT])
    assert server.mails == [2], "the rest goes over the same session"


@EACH_WAY
@pytest.mark.parametrize(
    ("replies", "verdict", "own"),
    [
        ({"a": "550 5.1.1 unknown", "b": "550 5.1.1 unknown"}, FAIL, [FAIL, FAIL, NEXT]),
        ({"a": "450 4.2.0 later", "b": "550 5.1.1 unknown"}, RETRY, [RETRY, FAIL, NEXT]),
        ({"b": "550 5.1.1 unknown"}, SENT, [SENT, FAIL, NEXT]),
    ],
    ids=["refused", "put off", "one taken"],
)
def test_who_is_not_named_is_left_to_the_next_transaction_whatever_becomes_of_the_others(
    extensions: tuple[str, ...], replies: dict[str, str], verdict: Verdict, own: list[Verdict]
) -> None:
    with SessionServer(
        extensions=(*extensions, "LIMITS RCPTMAX=2"),
        reply_to=lambda address: replies.get(address[0], "250 ok"),
    ) as server:
        [result] = send(server, to("a@x", "b@x", "c@x"))
    assert (result.verdict, each(result)) == (verdict, own)
    assert result.reply.code == {FAIL: 550, RETRY: 450, SENT: 250}[verdict]


@pytest.mark.parametrize(
    ("place", "reply", "verdict"),
    [
        ("MAIL", "421 4.3.2 closing", Verdict.SUSPECT),
        ("MAIL", "550 5.7.1 no", FAIL),
        (".", "451 4.3.0 later", RETRY),
    ],
)
def test_a_reply_to_mail_is_one_to_all_and_a_reply_to_the_content_to_those_who_are_named(
    place: str, reply: str, verdict: Verdict
) -> None:
    with SessionServer(
        {place: reply}, lambda _: True, extensions=(*PLAIN, "LIMITS RCPTMAX=1")
    ) as server:
        [result] = send(server, to("a@x", "b@x"))
    assert result.phase is (Phase.DOT if place == "." else Phase.MAIL)
    assert each(result) == [verdict, NEXT if place == "." else verdict]


@EACH_WAY
def test_a_session_is_told_no_more_domains_than_it_takes(extensions: tuple[str, ...]) -> None:
    emails = [to("a@x"), to("b@X"), to("c@y"), to("d@z", "e@z"), to("f@z", "g@x", "h@y")]
    with SessionServer(extensions=(*extensions, "LIMITS RCPTDOMAINMAX=2")) as server:
        results = send(server, *emails)
    assert [each(result) for result in results] == [
        [SENT], [SENT], [SENT], [SENT, SENT], [SENT, SENT, NEXT],
    ]  # fmt: skip
    told = [
        {line.split("@")[1].lower() for line in d.lines if "RCPT" in line} for d in server.dialogues
    ]
    assert [len(domains) for domains in told] == [2, 2]
