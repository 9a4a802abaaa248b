"""Refusals in a row: a server is slow over such a session, so the next emails get a new one."""

from __future__ import annotations

from itertools import cycle, pairwise

import pytest

from outbox.domain.delivery.transaction import Phase, Transaction, Verdict
from outbox.smtp.connection import Connection
from outbox.smtp.envelope_session import MOST_ERRORS
from tests.support.servers.smtp.client import envelope, lease_held, server_settings
from tests.support.servers.smtp.postfix import Postfix
from tests.support.servers.smtp.sessions import PIPELINING, PLAIN, SessionServer

CONTENT = b"Subject: x\r\n\r\nHello\r\n"
LIMIT = 10
"""Postfix's `smtpd_soft_error_limit`: from the next error on each reply takes a second."""


class Differing(dict[str, str]):
    """Refuses each content in other words: alike refusals would be taken for the session's own."""

    def __init__(self) -> None:
        super().__init__({".": ""})
        self._rules = cycle("abcdefgh")

    def __getitem__(self, place: str) -> str:
        return f"554 5.7.1 refused by the rule {next(self._rules)}"


def send(connection: Connection, addresses: list[str]) -> list[Transaction]:
    """Send an email to each, and announce the next one."""
    emails = [envelope(address) for address in addresses]
    return [
        connection.send(email, CONTENT, lease_held, following)
        for email, following in pairwise([*emails, None])
        if email is not None
    ]


def unknown(number: int) -> list[str]:
    return [f"nobody{n}@refused.example" for n in range(number)]


def refuse(address: str) -> str:
    return "550 5.1.1 no such user" if "nobody" in address else "250 2.1.5 ok"


@pytest.mark.parametrize(
    ("extensions", "each"), [(PLAIN, 1), (PIPELINING, 2)], ids=["plain", "pipelining"]
)
def test_a_run_of_refused_recipients_gets_new_sessions(
    extensions: tuple[str, ...], each: int
) -> None:
    with SessionServer(reply_to=refuse, extensions=extensions) as server:
        connection = Connection(server.settings())
        results = send(connection, unknown(MOST_ERRORS // each))
        assert not connection.is_open, "what is known is recorded before a new session opens"
        results += send(connection, unknown(20 - len(results)))
        connection.close()
    assert {result.verdict for result in results} == {Verdict.FAIL}
    full, rest = divmod(20, MOST_ERRORS // each)
    assert server.mails == [MOST_ERRORS // each] * full + [rest] * bool(rest)
    assert MOST_ERRORS + each <= LIMIT


def test_an_email_that_is_taken_ends_the_run() -> None:
    some = [*unknown(MOST_ERRORS - 1), "ada@x.example"]
    with SessionServer(reply_to=refuse) as server:
        connection = Connection(server.settings())
        send(connection, some * 2)
        connection.close()
    assert server.mails == [2 * len(some)]
    assert server.emails == [2]


@pytest.mark.parametrize("extensions", [PLAIN, PIPELINING], ids=["plain", "pipelining"])
def test_so_does_a_run_of_refused_contents_though_each_email_is_announced(
    extensions: tuple[str, ...],
) -> None:
    with SessionServer(Differing(), lambda _: True, extensions=extensions) as server:
        connection = Connection(server.settings())
        results = send(connection, [f"r{n}@x.example" for n in range(30)])
        connection.close()
    assert {(result.verdict, result.phase) for result in results} == {(Verdict.FAIL, Phase.DOT)}
    assert max(server.mails) <= LIMIT
    assert sum(server.mails) == 30


def in_parts(connection: Connection, addresses: list[str]) -> list[Transaction]:
    """Send one email to all of them, in as many transactions as it takes."""
    results = list[Transaction]()
    while addresses:
        results.append(connection.send(envelope(*addresses), CONTENT, lease_held))
        left = [one for one in results[-1].recipients if one.verdict is Verdict.NEXT]
        assert len(left) < len(addresses)
        addresses = [one.address for one in left]
    return results


def verdicts_of(results: list[Transaction]) -> dict[str, Verdict]:
    """Return what became of each recipient at last."""
    return {one.address: one.verdict for result in results for one in result.recipients}


MANY = [f"ada{n}@x.example" if n % 12 else f"nobody{n}@refused.example" for n in range(120)]
ENDS = {to: Verdict.FAIL if "nobody" in to else Verdict.SENT for to in MANY}


@pytest.mark.parametrize("extensions", [PLAIN, PIPELINING], ids=["plain", "pipelining"])
def test_an_email_to_many_goes_in_parts_before_the_server_is_slow(
    extensions: tuple[str, ...],
) -> None:
    with SessionServer(reply_to=refuse, extensions=extensions) as server:
        connection = Connection(server.settings())
        results = in_parts(connection, MANY)
        connection.close()
    assert verdicts_of(results) == ENDS
    assert [to for _, part in server.taken for to in part] == [
        to for to in MANY if ENDS[to] is Verdict.SENT
    ]
    assert len(results) == 2
    assert len(server.mails) == 1, "what is taken ends the run"


def test_an_email_to_many_of_whom_nobody_is_accepted_is_not_divided() -> None:
    with SessionServer(reply_to=refuse, extensions=PIPELINING) as server:
        connection = Connection(server.settings())
        results = in_parts(connection, unknown(60))
        connection.close()
    assert [result.verdict for result in results] == [Verdict.FAIL]


@pytest.mark.long
def test_postfix_never_counts_more_than_its_limit(postfix: Postfix) -> None:
    """Over one session it would end it, with 421: here its hard limit is the soft one."""
    connection = Connection(server_settings(postfix.ports["all"]))
    results = send(connection, [*unknown(30), "ada@x.example"])
    assert verdicts_of(in_parts(connection, MANY)) == ENDS
    connection.close()
    replies = [result.recipients[0].reply for result in results]
    assert [reply.code for reply in replies] == [*[554] * 30, 250]
    log = (postfix.directory / "maillog").read_text(errors="replace")
    assert "too many errors" not in log
