"""An SMTP server that keeps RFC 5321's order of commands, and departs from it where a test says so.

It reads line by line, so the same departure plays with and without pipelining: what follows a
refused command in one write is answered as a real server answers it, with 503 or 554.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.servers.smtp.dialogue import Dialogue, HangupError
from tests.support.servers.smtp.scripted import ScriptedServer, Step, handshake

if TYPE_CHECKING:
    import ssl

EXTENSIONS = ("8BITMIME", "SIZE 100000000", "SMTPUTF8", "ENHANCEDSTATUSCODES")


@dataclass(frozen=True, kw_only=True)
class Says:
    """A reply, and what the server does after it."""

    reply: str
    then: Step


Answer = str | Says | Step
"""What is said, or done, in the place of the usual reply. After a 421 the server hangs up."""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """An email that the server answered for with 2xx."""

    recipients: tuple[str, ...]
    content: bytes  # as it was before dot-stuffing
    connection: int


def hang_up(dialogue: Dialogue) -> None:
    """Close in order: what the client still writes is read, so that no reset follows."""
    dialogue.sock.shutdown(socket.SHUT_WR)
    while True:
        dialogue.receive()


class StatefulServer(ScriptedServer):
    """Departs from good manners at places such as `"MAIL"`, `"RCPT 2"` or `"."`, once at each.

    The number says which command of this name, over all connections, is meant. `CONNECT` is the
    greeting and `BODY` the reading of a content. `most` recipients are taken in one transaction.
    """

    def __init__(
        self,
        answers: Mapping[str, Answer] | None = None,
        *,
        extensions: tuple[str, ...] = EXTENSIONS,
        most: int | None = None,
        starttls: ssl.SSLContext | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(tls=tls)
        # What the kernel takes in for a server that reads no more is bounded.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        self.otherwise = (self._serve,)
        self.unused = dict(answers or {})  # departures still to come
        self.accepted: list[Accepted] = []
        self.out_of_order: list[str] = []  # commands that the order refused, not a departure
        self.extensions = extensions
        self.most = most
        self.starttls = starttls
        self._seen: Counter[str] = Counter()

    def copies(self) -> Counter[tuple[str, bytes]]:
        """Return how often each recipient got each content."""
        return Counter((r, mail.content) for mail in self.accepted for r in mail.recipients)

    def answer(self, place: str, usual: str) -> Answer:
        """Return what this command is answered with, the next time it comes."""
        self._seen[place] += 1
        number = self._seen[place]
        return self.unused.pop(place if number == 1 else f"{place} {number}", usual)

    def _serve(self, dialogue: Dialogue) -> None:
        connection = next(n for n, other in enumerate(self.dialogues) if other is dialogue)
        _Conversation(self, dialogue, connection).run()


class _Conversation:
    """One connection: what MAIL and RCPT have brought so far, and what may come next."""

    def __init__(self, server: StatefulServer, dialogue: Dialogue, connection: int) -> None:
        self._server = server
        self._dialogue = dialogue
        self._connection = connection
        self._open = False  # MAIL was accepted
        self._recipients: list[str] = []

    def run(self) -> None:
        """Serve until QUIT or the client's end."""
        self._reply("CONNECT", "220 stateful.example ESMTP")
        while True:
            line = self._dialogue.line()
            verb = line.partition(" ")[0].upper()
            match verb:
                case "EHLO":
                    lines = ["stateful.example", *self._server.extensions]
                    marks = ["-"] * (len(lines) - 1) + [" "]
                    hello = (f"250{mark}{text}" for mark, text in zip(marks, lines, strict=True))
                    self._reply(verb, "\n".join(hello))
                case "STARTTLS":
                    self._secure()
                case "MAIL":
                    self._mail()
                case "RCPT":
                    self._rcpt(line.partition("<")[2].rpartition(">")[0])
                case "DATA":
                    self._data()
                case _:
                    self._other(verb)

    def _secure(self) -> None:
        if self._reply("STARTTLS", "220 go on") and self._server.starttls is not None:
            handshake(self._server.starttls)(self._dialogue)

    def _mail(self) -> None:
        refusal = "503 5.5.1 nested MAIL" if self._open else ""
        self._open = self._in_order("MAIL", "250 2.1.0 ok", refusal) or self._open

    def _rcpt(self, address: str) -> None:
        full = self._server.most is not None and len(self._recipients) >= self._server.most
        usual = "452 4.5.3 too many recipients" if full else "250 2.1.5 ok"
        if self._in_order("RCPT", usual, "" if self._open else "503 5.5.1 MAIL first"):
            self._recipients.append(address)

    def _data(self) -> None:
        refusal = "" if self._recipients else "554 5.5.1 no valid recipients"
        if not self._open:
            refusal = "503 5.5.1 MAIL first"
        if not self._in_order("DATA", "354 go on", refusal):
            return
        in_place = self._server.answer("BODY", "")
        if callable(in_place):
            in_place(self._dialogue)
        self._dialogue.content()
        recipients, self._recipients, self._open = tuple(self._recipients), [], False
        answer = self._server.answer(".", "250 2.0.0 queued")
        if _reply_of(answer).startswith("2"):  # noted before the client can know of it
            content = self._dialogue.bodies[-1].removesuffix(b".\r\n").replace(b"\r\n..", b"\r\n.")
            self._server.accepted.append(
                Accepted(recipients=recipients, content=content, connection=self._connection)
            )
        self._give(answer)

    def _other(self, verb: str) -> None:
        if verb == "RSET":
            self._recipients, self._open = [], False
        usual = {"QUIT": "221 bye", "AUTH": "235 welcome"}.get(verb, "250 fine")
        self._reply(verb, usual)
        if verb == "QUIT":
            raise HangupError

    def _in_order(self, verb: str, usual: str, refusal: str) -> bool:
        if refusal:
            self._server.out_of_order.append(verb)
        return self._reply(verb, refusal or usual)

    def _reply(self, place: str, usual: str) -> bool:
        """Answer; return whether the command was accepted."""
        answer = self._server.answer(place, usual)
        self._give(answer)
        return _reply_of(answer).startswith("354" if place == "DATA" else "2")

    def _give(self, answer: Answer) -> None:
        if callable(answer):
            answer(self._dialogue)
            return
        self._dialogue.say(_reply_of(answer))
        if isinstance(answer, Says):
            answer.then(self._dialogue)
        elif answer.startswith("421"):
            hang_up(self._dialogue)


def _reply_of(answer: Answer) -> str:
    match answer:
        case str():
            return answer
        case Says():
            return answer.reply
    return ""
