"""Commands in groups (RFC 2920), against a server that withholds replies until it has seen them."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.transaction import Envelope, Phase, Transaction, Verdict
from outbox.smtp.connection import Connection
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import (
    GREET,
    Script,
    ScriptedServer,
    close,
    content,
    expect,
    say,
    serve,
)

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
ON_WIRE = CONTENT + b".\r\n"
HELLO: Script = (GREET, expect("EHLO", "250-scripted.example\n250 PIPELINING"))
ENVELOPE: Script = (expect("MAIL", None), expect("RCPT", None), expect("DATA", None))
GROUP: Script = (*ENVELOPE, say("250 ok\n250 ok\n354 go on"))
FIRST, SECOND, THIRD = (envelope(f"{name}@example.org") for name in ("a", "b", "c"))


def send(connection: Connection, *emails: Envelope, announce: bool = True) -> list[Transaction]:
    """Send the emails in their order, each announced with the one before it."""
    following = [*emails[1:], None] if announce else [None] * len(emails)
    return [
        connection.send(mail, CONTENT, lease_held, behind)
        for mail, behind in zip(emails, following, strict=True)
    ]


def send_over_one(server: ScriptedServer, *emails: Envelope) -> list[Transaction]:
    """Send the emails over a connection of their own, each announced with the one before it."""
    connection = Connection(server.settings())
    results = send(connection, *emails)
    connection.close()
    return results


def verdicts(results: list[Transaction]) -> list[Verdict]:
    return [result.verdict for result in results]


def scripted(*script: object) -> ScriptedServer:
    """A server whose first connection says HELLO and then this."""
    return ScriptedServer((*HELLO, *script))  # type: ignore[arg-type]


def test_an_emails_commands_travel_as_one_group() -> None:
    with scripted(*GROUP, content("250 ok")) as server:
        assert verdicts(send_over_one(server, FIRST)) == [Verdict.SENT]
    assert server.bodies == [ON_WIRE]


def test_the_next_emails_commands_travel_behind_the_content_in_one_round_trip() -> None:
    both = (content(None), *ENVELOPE, say("250 first\n250 ok\n250 ok\n354 go on"))
    with scripted(*GROUP, *both, content("250 second")) as server:
        results = send_over_one(server, FIRST, SECOND)
    assert [result.reply.text for result in results] == ["first", "second"]
    assert server.bodies == [ON_WIRE, ON_WIRE]
    assert server.dialogues[0].lines[4] == "MAIL FROM:<shop@example.org>"


def test_without_the_offer_each_command_waits_for_its_reply() -> None:
    def nothing_ahead(dialogue: Dialogue) -> None:
        assert dialogue.data == b"", "a command came before its turn"

    steps: list[object] = []
    for command, reply in (("MAIL", "250 ok"), ("RCPT", "250 ok"), ("DATA", "354 go on")):
        steps += [expect(command, None), nothing_ahead, say(reply)]
    plain = (GREET, expect("EHLO", "250 scripted.example"), *steps, content(None), nothing_ahead)
    with ScriptedServer((*plain, say("250 ok"), serve)) as server:  # type: ignore[arg-type]
        assert verdicts(send_over_one(server, FIRST, SECOND)) == [Verdict.SENT] * 2


def test_a_refused_recipient_leaves_the_others_their_email() -> None:
    three = (expect("MAIL", None), *[expect("RCPT", None)] * 3, expect("DATA", None))
    replies = say("250 ok\n250 ok\n550 5.1.1 nobody\n450 4.2.0 later\n354 go on")
    with scripted(*three, replies, content("250 ok"), serve) as server:
        connection = Connection(server.settings())
        mail = envelope("a@example.org", "b@example.org", "c@example.org")
        [result] = send(connection, mail)
        assert [r.verdict for r in result.recipients] == [Verdict.SENT, Verdict.FAIL, Verdict.RETRY]
        assert verdicts(send(connection, SECOND)) == [Verdict.SENT]
        connection.close()
    assert len(server.dialogues) == 1


@pytest.mark.parametrize("after_data", ["554 5.5.1 no valid recipients", "503 5.5.1 RCPT first"])
def test_where_everybody_was_refused_the_refusal_of_data_means_nothing(after_data: str) -> None:
    refused = (*ENVELOPE, say(f"250 ok\n550 5.1.1 nobody\n{after_data}"), expect("RSET", "250 ok"))
    with scripted(*refused, serve) as server:
        first, second = send_over_one(server, FIRST, SECOND)
    assert (first.verdict, first.phase, first.reply.code) == (Verdict.FAIL, Phase.RCPT, 550)
    assert second.verdict is Verdict.SENT
    assert len(server.dialogues) == 1


@pytest.mark.parametrize("after_dot", ["250 ok", "554 5.5.1 no valid recipients"])
@pytest.mark.parametrize(
    ("replies", "phase"),
    [
        ("250 ok\n550 5.1.1 nobody\n354 go on", Phase.RCPT),
        ("550 5.1.8 sender\n550 5.1.1 nobody\n354 go on", Phase.MAIL),
    ],
)
def test_a_354_for_nobody_is_answered_with_a_lone_dot(
    replies: str, phase: Phase, after_dot: str
) -> None:
    with scripted(*ENVELOPE, say(replies), content(after_dot), serve) as server:
        first, second = send_over_one(server, FIRST, SECOND)
    assert (first.verdict, first.phase) == (Verdict.FAIL, phase)
    assert second.verdict is Verdict.SENT
    assert server.bodies == [b".\r\n", ON_WIRE]
    assert len(server.dialogues) == 1


def test_a_refused_sender_is_the_emails_verdict_whatever_the_rest_of_the_group_says() -> None:
    refused = (*ENVELOPE, say("450 4.1.8 sender\n503 5.5.1 MAIL first\n503 5.5.1 MAIL first"))
    with scripted(*refused, serve) as server:
        first, second = send_over_one(server, FIRST, SECOND)
    assert (first.verdict, first.phase, first.reply.code) == (Verdict.RETRY, Phase.MAIL, 450)
    assert second.verdict is Verdict.SENT
    assert len(server.dialogues) == 1


def test_a_refusal_stands_though_the_connection_ends_in_the_middle_of_its_group() -> None:
    with scripted(*ENVELOPE, say("250 ok\n550 5.1.1 nobody"), close) as server:
        first, second = send_over_one(server, FIRST, SECOND)
    assert (first.verdict, first.phase) == (Verdict.FAIL, Phase.RCPT)
    assert second.verdict is Verdict.SENT
    assert len(server.dialogues) == 2


def test_too_many_recipients_take_the_rest_to_the_next_transaction_and_announce_nobody() -> None:
    mail = envelope("a@example.org", "b@example.org")
    two = (expect("MAIL", None), *[expect("RCPT", None)] * 2, expect("DATA", None))
    replies = say("250 ok\n250 ok\n452 4.5.3 too many\n354 go on")
    with scripted(*two, replies, content("250 ok"), serve) as server:
        first, rest = send_over_one(server, mail, SECOND)
    assert [r.verdict for r in first.recipients] == [Verdict.SENT, Verdict.NEXT]
    assert rest.verdict is Verdict.SENT
    assert len(server.dialogues) == 1


def test_many_recipients_go_in_groups_that_both_sides_can_hold() -> None:
    many = envelope(*(f"r{number}@example.org" for number in range(120)))
    groups: list[object] = []
    for verbs in (["MAIL", *["RCPT"] * 49], ["RCPT"] * 50, [*["RCPT"] * 21, "DATA"]):
        groups += [expect(verb, None) for verb in verbs]
        groups.append(say("\n".join("354 go" if verb == "DATA" else "250 ok" for verb in verbs)))
    with scripted(*groups, content("250 ok"), serve) as server:
        assert verdicts(send_over_one(server, many, SECOND)) == [Verdict.SENT] * 2
    assert len(server.dialogues[0].lines) == 1 + 122 + 3 + 1


def test_the_reply_to_the_dot_is_lost_and_the_announced_email_is_not_charged() -> None:
    with scripted(*GROUP, content(None), *ENVELOPE, close) as server:
        first, second = send_over_one(server, FIRST, SECOND)
    assert (first.verdict, first.phase) == (Verdict.UNKNOWN, Phase.DOT)
    assert second.verdict is Verdict.SENT
    assert len(server.dialogues) == 2


@pytest.mark.parametrize("good_bye", [close, say("421 4.4.2 enough")])
def test_a_server_that_ends_after_an_email_charges_the_announced_one_nothing(
    good_bye: object,
) -> None:
    with scripted(*GROUP, content(None), *ENVELOPE, say("250 ok"), good_bye, close) as server:
        assert verdicts(send_over_one(server, FIRST, SECOND)) == [Verdict.SENT] * 2
    assert [len(dialogue.bodies) for dialogue in server.dialogues] == [1, 1]


def test_a_reply_given_twice_shifts_no_email_into_a_success() -> None:
    twice = (content(None), *ENVELOPE, say("250 ok\n250 ok\n250 ok\n250 ok\n354 go on"))
    with scripted(*GROUP, *twice, serve) as server:
        connection = Connection(server.settings())
        first, second = send(connection, FIRST, SECOND)
        assert (first.verdict, second.verdict) == (Verdict.SENT, Verdict.RETRY)
        assert verdicts(send(connection, THIRD)) == [Verdict.SENT]
        connection.close()
    assert [len(dialogue.bodies) for dialogue in server.dialogues] == [1, 1]


@pytest.mark.parametrize(
    ("mail", "own"),
    [
        (SECOND, "250 ok\n250 ok\n354 go on"),
        (envelope("b@example.org", "c@example.org"), "250 ok\n250 ok\n550 5.1.1 no\n354 go on"),
    ],
)
@pytest.mark.parametrize("is_announced", [True, False])
def test_a_refusal_after_the_reply_to_the_dot_is_not_taken_for_that_of_the_next_email(
    is_announced: bool, mail: Envelope, own: str
) -> None:
    commands = (expect("MAIL", None), *[expect("RCPT", None)] * len(mail.recipients))
    first = (content(None), *commands, expect("DATA", None), say("250 first"))
    if not is_announced:
        first = (content("250 first"), *commands, expect("DATA", None))
    with scripted(*GROUP, *first, say(f"550 5.7.1 no\n{own}"), serve) as server:
        connection = Connection(server.settings())
        sent, next_one = send(connection, FIRST, mail, announce=is_announced)
        assert (sent.verdict, next_one.verdict) == (Verdict.SENT, Verdict.RETRY)
        assert verdicts(send(connection, mail)) == [Verdict.SENT]
        connection.close()
    assert [len(dialogue.bodies) for dialogue in server.dialogues] == [1, 1]


@pytest.mark.parametrize(
    ("replies", "phase"),
    [("550 5.1.8 sender\n250 ok", Phase.MAIL), ("250 ok\n550 5.1.1 nobody", Phase.RCPT)],
)
def test_a_refusal_that_comes_with_the_reply_to_the_dot_before_it_is_seen(
    replies: str, phase: Phase
) -> None:
    both = (content(None), *ENVELOPE, say(f"250 first\n{replies}\n354 go on"))
    with scripted(*GROUP, *both, content("250 nobody"), serve) as server:
        first, second = send_over_one(server, FIRST, SECOND)
    assert first.verdict is Verdict.SENT
    assert (second.verdict, second.phase) == (Verdict.FAIL, phase)
    assert server.bodies == [ON_WIRE, b".\r\n"]


def test_a_reply_to_the_dot_before_the_content_is_no_success() -> None:
    both = (content(None), *ENVELOPE, say("250 first\n250 ok\n250 ok\n354 go on\n250 too soon"))
    with scripted(*GROUP, *both, content("554 5.6.0 no"), serve) as server:
        first, second = send_over_one(server, FIRST, SECOND)
        assert server.dialogues[0].over.wait(5)
    assert (first.verdict, second.verdict) == (Verdict.SENT, Verdict.RETRY)
    assert server.bodies == [ON_WIRE]


def test_an_announced_email_that_does_not_come_leaves_nothing_behind() -> None:
    both = (content(None), *ENVELOPE, say("250 ok\n250 ok\n250 ok\n354 go on"))
    with scripted(*GROUP, *both, content("250 never")) as server:
        connection = Connection(server.settings())
        assert connection.send(FIRST, CONTENT, lease_held, SECOND).verdict is Verdict.SENT
        connection.rest()
        assert connection.send(THIRD, CONTENT, lease_held).verdict is Verdict.SENT
        connection.close()
        assert server.dialogues[0].over.wait(5)
    assert [dialogue.bodies for dialogue in server.dialogues] == [[ON_WIRE], [ON_WIRE]]
    assert server.dialogues[0].torn == b""


def test_another_email_than_the_announced_one_takes_a_new_connection() -> None:
    both = (content(None), *ENVELOPE, say("250 ok\n250 ok\n250 ok\n354 go on"))
    with scripted(*GROUP, *both, content("250 never")) as server:
        connection = Connection(server.settings())
        assert connection.send(FIRST, CONTENT, lease_held, SECOND).verdict is Verdict.SENT
        assert connection.send(THIRD, CONTENT, lease_held).verdict is Verdict.SENT
        connection.close()
    assert [dialogue.bodies for dialogue in server.dialogues] == [[ON_WIRE], [ON_WIRE]]


def test_a_lease_that_ends_before_the_content_of_an_announced_email_sends_none_of_it() -> None:
    both = (content(None), *ENVELOPE, say("250 ok\n250 ok\n250 ok\n354 go on"))
    with scripted(*GROUP, *both, content("250 never")) as server:
        connection = Connection(server.settings())
        assert connection.send(FIRST, CONTENT, lease_held, SECOND).verdict is Verdict.SENT
        lost = connection.send(SECOND, CONTENT, lambda: False)
        assert server.dialogues[0].over.wait(5)
    assert (lost.verdict, lost.phase) == (Verdict.UNSENT, Phase.BODY)
    assert server.bodies == [ON_WIRE]
    assert server.dialogues[0].torn == b""


def test_the_last_email_of_a_connections_life_announces_nobody() -> None:
    with scripted(*GROUP, content("250 ok"), expect("QUIT", "221 bye")) as server:
        connection = Connection(server.settings(connection_emails=1))
        assert verdicts(send(connection, FIRST, SECOND)) == [Verdict.SENT] * 2
        connection.close()
    assert server.verbs(0) == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
