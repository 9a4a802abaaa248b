"""Whatever a server says, the client ends in a verdict, in time, and claims nothing untold.

A real socket, and a server that plays octets. A reader of a few lines, written from RFC 5321 §4.2,
tells which replies stood in them.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from outbox.domain.delivery.transaction import Envelope, Transaction, Verdict
from outbox.smtp.connection import Connection
from tests.fuzz.campaign import Property
from tests.fuzz.inputs.talks import Act, Talk, talks
from tests.fuzz.listener import Listener
from tests.support.servers.smtp.client import lease_held, server_settings

TIMEOUT = 0.1
"""Seconds of each of the client's time-outs."""
LONGEST = 30 * TIMEOUT + 3.0
"""Seconds for one dialogue: each of its replies may use up its deadline, on a busy machine too."""

CONTENT = b"Subject: s\r\n\r\n.hello\r\n"
PEOPLE = ("a@x.example", "b@x.example", "c@x.example")


_LINE = re.compile(rb"([2-5][0-9][0-9])(?:([ \t-])([^\n]*))?")


def replies(octets: bytes) -> list[int]:
    """Return the codes of the whole replies at the start of the octets (RFC 5321 §4.2.1)."""
    codes: list[int] = []
    first: int | None = None
    lines = octets.split(b"\n")[:-1]
    for line in lines:
        match = _LINE.fullmatch(line.removesuffix(b"\r"))
        if match is None or first not in (None, int(match[1])):
            return codes
        first = int(match[1])
        if match[2] != b"-":
            codes.append(first)
            first = None
    return codes


@dataclass
class _Connection:
    """All octets of one connection."""

    said: bytes = b""
    heard: bytes = b""
    _read: int = 0

    def waits(self, sock: socket.socket) -> bool:
        """Read a command, or a content where DATA was answered with 354; False at the end."""
        end = b"\r\n.\r\n" if self._content_is_next() else b"\r\n"
        while (place := self.heard.find(end, self._read)) < 0:
            if not (more := sock.recv(1 << 16)):
                return False
            self.heard += more
        self._read = place + len(end)
        return True

    def _content_is_next(self) -> bool:
        last = self.heard[: self._read].rpartition(b"\r\n")[0].rpartition(b"\r\n")[2]
        return last.upper() == b"DATA" and self.said.rpartition(b"\r\n")[0].rpartition(b"\n")[
            2
        ].startswith(b"354")

    def accepted(self) -> int:
        """Count the contents whose final dot has a 2xx: the n-th reply answers the n-th command."""
        codes, left, total = iter(replies(self.said)[1:]), self.heard, 0
        while b"\r\n" in left:
            command, _, left = left.partition(b"\r\n")
            if next(codes, 0) != 354 or command.upper() != b"DATA":
                continue
            content, end, left = (b"\r\n" + left).partition(b"\r\n.\r\n")
            total += bool(end and content) and next(codes, 0) // 100 == 2
        return total


class Player(Listener):
    """Plays one talk's acts: the greeting, and an act behind each command and each content."""

    def __init__(self) -> None:
        super().__init__("player")
        self._acts: list[Act] = []
        self._over = threading.Event()
        self.connections: list[_Connection] = []

    def play(self, acts: tuple[Act, ...]) -> None:
        """Begin a new talk; its acts go on over the next connections."""
        self._acts, self.connections = list(acts), []
        self._over.clear()

    def rest(self) -> None:
        """Wait until every connection has been read to its end: they are served in their order."""
        self._acts = []
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.shutdown(socket.SHUT_WR)
            while last.recv(1 << 16):
                pass

    def end(self) -> None:
        """Let a silent server go on."""
        self._over.set()

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        super().__exit__(*raised)

    def serve(self, sock: socket.socket) -> None:
        """Play the next acts."""
        sock.settimeout(LONGEST)
        connection = _Connection()
        self.connections.append(connection)
        while act := self._acts.pop(0) if self._acts else None:
            for piece in act.pieces:
                connection.said += piece
                sock.sendall(piece)
            if act.end == "silent":
                self._over.wait(LONGEST)
            if act.end == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            if act.end or not connection.waits(sock):
                break
        sock.shutdown(socket.SHUT_WR)
        while more := sock.recv(1 << 16):  # to the end, to know all that the client said
            connection.heard += more


@contextmanager
def properties() -> Iterator[list[Property]]:
    """Start the server that plays."""
    with Player() as player:
        yield [
            Property(
                source="SMTP replies",
                inputs=talks(),
                holds=lambda talk: _holds(player, talk),
            )
        ]


def _holds(player: Player, talk: Talk) -> None:
    player.play(talk.acts)
    settings = replace(
        server_settings(player.port),
        connect_timeout=TIMEOUT,
        command_timeout=TIMEOUT,
        dot_timeout=TIMEOUT,
        security="starttls" if talk.starttls else "none",
        username="user" if talk.login else None,
        password="password" if talk.login else None,
        cleartext_auth=True,
    )
    emails = [
        Envelope(sender=f"s{n}@x.example", recipients=PEOPLE[: talk.recipients], size=len(CONTENT))
        for n in range(talk.emails)
    ]
    connection = Connection(settings)
    started = time.monotonic()
    try:
        results = [
            connection.send(mail, CONTENT, lease_held, following)
            for mail, following in zip(emails, [*emails[1:], None], strict=True)
        ]
    finally:
        player.end()
        connection.close()
        player.rest()
    assert time.monotonic() - started < LONGEST, "longer than all the deadlines together"
    for mail, result in zip(emails, results, strict=True):
        _sound(result, mail)
    sent = sum(result.verdict is Verdict.SENT for result in results)
    accepted = sum(connection.accepted() for connection in player.connections)
    assert sent <= accepted, f"{sent} sent, and {accepted} final dots had a 2xx"


def _sound(result: Transaction, mail: Envelope) -> None:
    """Whatever was said: the result fits its columns and what it says of each recipient agrees."""
    assert tuple(r.address for r in result.recipients) == mail.recipients
    for reply in (result.reply, *(r.reply for r in result.recipients)):
        assert reply.code == 0 or 200 <= reply.code <= 599
        assert reply.text.isprintable()
        assert len(reply.text) <= 500
        reply.text.encode()
        assert re.fullmatch(r"([245]\.\d{1,3}\.\d{1,3})?", reply.enhanced)
    assert result.retry_after is None or 0 <= result.retry_after <= 86_400
    delivered = [r for r in result.recipients if r.verdict is Verdict.SENT]
    assert bool(delivered) == (result.verdict is Verdict.SENT)
    for recipient in delivered:
        assert recipient.reply.code // 100 == 2
