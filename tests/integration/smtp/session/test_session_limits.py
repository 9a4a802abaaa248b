"""A refusal of the session is no refusal of the email: that goes over a new session, uncharged."""

from __future__ import annotations

from itertools import pairwise

import pytest

from outbox.domain.delivery.transaction import Transaction, Verdict
from outbox.smtp.connection import NO_CURE, Connection
from outbox.smtp.session_limits import TAUGHT_SECONDS, Taught
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.sessions import PIPELINING, PLAIN, SessionServer, more_than

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
STALWART = "452 4.4.5 Maximum number of messages per session exceeded."
IONOS = "451-Requested action aborted\n451 Mails per session limit exceeded."
GODADDY = (
    "550 This message has exceeded the max number of messages per session. "
    "Open a new session and try again. IB510"
)
OPENSMTPD = "452 4.5.3 Too many recipients: Too many messages sent"
MILTER = "451 4.7.1 Service unavailable - try again later"
POSTSCREEN = "450 4.3.2 Service currently unavailable"
SPAM = "550 5.7.1 looks like spam"

SAID = [
    ("DATA", STALWART),
    ("MAIL", IONOS),
    (".", IONOS),
    ("RCPT", GODADDY),
    (".", GODADDY),
    ("MAIL", OPENSMTPD),
    ("MAIL", "450 too many messages in this session"),
    ("RCPT", "450 4.2.1 Too many messages in this session, at a rate that is too high"),
    ("MAIL", "421 too many messages in this connection"),
    ("DATA", "421 4.7.0 too many messages in this session"),
    (".", "421 4.7.0 Maximum message count per session reached"),
]
EACH = pytest.mark.parametrize(("place", "reply"), SAID)
EACH_WAY = pytest.mark.parametrize("extensions", [PLAIN, PIPELINING], ids=["plain", "pipelining"])


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def send(connection: Connection, count: int, start: int = 0) -> list[Transaction]:
    """Send so many emails, and announce each but the first behind the one before."""
    emails = [envelope(f"r{number}@d{number}.example") for number in range(start, start + count)]
    return [
        connection.send(email, CONTENT, lease_held, following)
        for email, following in pairwise([*emails, None])
        if email is not None
    ]


def verdicts(results: list[Transaction]) -> list[Verdict]:
    return [result.verdict for result in results]


@pytest.mark.matrix
@EACH_WAY
@EACH
def test_where_the_server_says_so_the_email_goes_once_more_over_a_new_session(
    place: str, reply: str, extensions: tuple[str, ...]
) -> None:
    with SessionServer({place: reply}, more_than(3), extensions=extensions) as server:
        connection = Connection(server.settings())
        results = send(connection, 8)
        connection.close()
    assert verdicts(results) == [Verdict.SENT] * 8
    assert [to for _, to in server.taken] == [(f"r{n}@d{n}.example",) for n in range(8)]
    assert (server.emails, server.refused) == ([3, 3, 2], [0]), "it is told once"
    assert server.mails[1:] == [3, 2], "no email is announced that the session would not take"


@EACH
def test_a_server_that_says_so_at_once_is_not_asked_again_and_again(place: str, reply: str) -> None:
    with SessionServer({place: reply}, more_than(0)) as server:
        connection = Connection(server.settings())
        results = send(connection, 2)
        connection.close()
    assert not {Verdict.SENT, Verdict.HALT} & set(verdicts(results))
    assert server.mails == [1, 1]


def test_a_kept_session_without_an_email_that_says_so_is_not_replaced() -> None:
    with SessionServer({"MAIL": OPENSMTPD}, more_than(0)) as server:
        connection = Connection(server.settings())
        assert connection.connect() is None
        assert verdicts(send(connection, 1)) == [Verdict.SUSPECT]
        connection.close()
    assert server.mails == [1]


def test_where_a_server_takes_one_email_a_session_each_gets_its_own() -> None:
    with SessionServer({"DATA": STALWART}, more_than(1)) as server:
        connection = Connection(server.settings())
        assert verdicts(send(connection, 4)) == [Verdict.SENT] * 4
        connection.close()
    assert (server.mails, server.refused) == ([2, 1, 1, 1], [0])


def test_what_one_connection_was_taught_holds_for_all_of_the_process_and_for_an_hour() -> None:
    clock, taught = Clock(), Taught()
    with SessionServer({"DATA": STALWART}, more_than(2)) as server:
        for _ in range(2):
            connection = Connection(server.settings(), clock=clock, taught=taught)
            assert verdicts(send(connection, 4)) == [Verdict.SENT] * 4
            connection.close()
        assert (server.emails, server.refused) == ([2, 2, 2, 2], [0])
        clock.now += TAUGHT_SECONDS
        connection = Connection(server.settings(), clock=clock, taught=taught)
        send(connection, 4)
        connection.close()
    assert server.refused == [0, 4]


def test_what_a_new_session_refuses_too_teaches_nothing() -> None:
    own = "550 5.7.1 Your quota does not allow that on this connection"
    with SessionServer(reply_to=lambda to: own if to[:2] == "r1" else "250 ok") as server:
        connection = Connection(server.settings())
        assert verdicts(send(connection, 4))[2:] == [Verdict.SENT] * 2
        connection.close()
    assert server.mails == [2, 1, 2]


def test_a_session_that_is_refused_ends_with_quit() -> None:
    with SessionServer({"DATA": STALWART}, more_than(1)) as server:
        connection = Connection(server.settings())
        send(connection, 2)
        connection.close()
    assert [server.verbs(number)[-1] for number in range(2)] == ["QUIT"] * 2


@EACH_WAY
@pytest.mark.parametrize(
    ("place", "reply", "taken"),
    [("MAIL", MILTER, 1), ("RCPT", POSTSCREEN, 0), ("RCPT", SPAM, 2), (".", SPAM, 1)],
    ids=["a filter that was restarted", "postscreen", "without such words", "at the dot"],
)
def test_the_second_email_in_a_row_that_meets_a_refusal_is_judged_over_a_new_session(
    place: str, reply: str, taken: int, extensions: tuple[str, ...]
) -> None:
    def refuses_the_first(talk: object) -> bool:
        return getattr(talk, "number", 0) == 0 and getattr(talk, "taken", 0) >= taken

    with SessionServer({place: reply}, refuses_the_first, extensions=extensions) as server:
        connection = Connection(server.settings())
        results = send(connection, taken + 3)
        connection.close()
    refused = Verdict.RETRY if reply.startswith("4") else Verdict.FAIL
    assert verdicts(results) == [*[Verdict.SENT] * taken, refused, Verdict.SENT, Verdict.SENT]
    assert (server.emails, server.refused) == ([taken, 2], [0, 0])


def test_a_refusal_that_a_new_session_does_not_cure_costs_one_session_a_minute() -> None:
    clock = Clock()
    with SessionServer({"RCPT": SPAM}, more_than(0)) as server:
        connection = Connection(server.settings(), clock=clock)
        assert verdicts(send(connection, 6)) == [Verdict.FAIL] * 6
        assert server.mails == [2, 5]
        clock.now += NO_CURE
        assert verdicts(send(connection, 3)) == [Verdict.FAIL] * 3
        connection.close()
    assert server.mails == [2, 6, 3]


@pytest.mark.parametrize(
    "reply",
    ["550 5.1.1 <{}>: user unknown", "452 4.2.2 <{}>: mailbox full", "450 4.2.0 <{}>: Greylisted"],
    ids=["unknown", "full", "greylisted"],
)
def test_the_refusal_of_a_recipient_needs_no_new_session(reply: str) -> None:
    with SessionServer(reply_to=reply.format) as server:
        connection = Connection(server.settings())
        send(connection, 4)
        connection.close()
    assert server.mails == [4]


def test_refusals_that_differ_or_have_an_email_between_them_need_no_new_session() -> None:
    replies = iter([SPAM, "550 5.7.1 blocked", SPAM, "250 ok", SPAM])
    with SessionServer(reply_to=lambda _: next(replies)) as server:
        connection = Connection(server.settings())
        send(connection, 5)
        connection.close()
    assert server.mails == [5]


def test_a_refusal_stands_where_no_new_session_can_be_had_to_cure_it() -> None:
    """Who judges the server is the next email, which opens a session in its own turn."""
    with SessionServer({"RCPT": SPAM}, lambda talk: talk.number == 0) as server:
        server.greets = lambda number: "421 too many connections" if number == 1 else "220 hello"
        connection = Connection(server.settings())
        assert verdicts(send(connection, 3)) == [Verdict.FAIL, Verdict.FAIL, Verdict.SENT]
        connection.close()
    assert server.mails == [2, 0, 1]


def test_where_the_server_refused_the_session_the_email_waits_for_a_new_one() -> None:
    with SessionServer({".": GODADDY}, more_than(1)) as server:
        server.greets = lambda number: "421 too many connections" if number == 1 else "220 hello"
        connection = Connection(server.settings())
        assert verdicts(send(connection, 2)) == [Verdict.SENT, Verdict.HALT]
        connection.close()
