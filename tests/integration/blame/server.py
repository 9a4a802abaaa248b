"""An SMTP server that answers by class: by an email's sender, its recipients and its SIZE.

It reads line by line, so it answers alike with pipelining and without.
"""

from __future__ import annotations

import re
import select
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from outbox.domain.delivery.transaction import Phase
from tests.support.servers.smtp.dialogue import Dialogue, HangupError
from tests.support.servers.smtp.scripted import ScriptedServer, Step, raw, reset, take
from tests.support.servers.smtp.stateful import hang_up

EXTENSIONS = ("8BITMIME", "SIZE 100000000", "SMTPUTF8", "ENHANCEDSTATUSCODES")
GARBAGE = raw(b"\x16\x03\x01 this is no SMTP\r\n")
PATIENCE_ENDS = b"\x07"
"""An octet in the place of a silence that lasts until the client gives up; see `conftest`."""

TORN = 100_000
"""Octets of a content that are read before the connection is reset: never the final dot."""

_PATH = re.compile(r"<([^>]*)>")
_SIZE = re.compile(r"SIZE=(\d+)")


@dataclass(kw_only=True)
class Seen:
    """What the server knows of an email so far."""

    sender: str
    size: int
    recipients: list[str] = field(default_factory=list)  # those that were named, taken or not
    accepted: list[str] = field(default_factory=list)

    @property
    def domains(self) -> set[str]:
        return {address.rpartition("@")[2] for address in self.recipients}


@dataclass(frozen=True, kw_only=True)
class Habit:
    """What the server does to the emails of a class: at which command, and what it says or does."""

    phase: Phase
    answer: str | Step
    after_accepted: bool = False  # only once the transaction has a recipient


def tear(dialogue: Dialogue) -> None:
    """Read the start of a content and reset the connection."""
    take(TORN, reset)(dialogue)


def time_out(dialogue: Dialogue) -> None:
    """Have the client run out of patience: a mark in the place of all the time that it waits."""
    dialogue.sock.sendall(PATIENCE_ENDS)
    hang_up(dialogue)


def stop_reading(dialogue: Dialogue) -> None:
    """Read no more than the start of a content, and have the client run out of patience."""
    dialogue.receive()  # now it reads no reply
    dialogue.sock.sendall(PATIENCE_ENDS)
    gone = select.poll()
    gone.register(dialogue.sock, 0)  # an error, or the other side's end, is told unasked
    while not gone.poll(20):
        if dialogue.stopped.is_set():
            break
    raise HangupError


class ClassServer(ScriptedServer):
    """Takes every email, but for those that `refuses` names: to these it does what its habit is."""

    def __init__(
        self, habit: Habit | None = None, *, extensions: tuple[str, ...] = EXTENSIONS
    ) -> None:
        super().__init__()
        # What the kernel takes in for a server that reads no more is bounded.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        self.otherwise = (self._serve,)
        self.habit = habit
        self.extensions = extensions
        self.knows_ehlo = True
        self.pause = 0.0  # seconds before the reply to each RCPT
        self.refuses: Callable[[Seen], bool] = lambda _: True
        self.mailbox: Callable[[str], str | None] = lambda _: None  # what it says to this RCPT
        self.copies: Counter[str] = Counter()  # by recipient
        self.senders: Counter[str] = Counter()  # of every MAIL that came
        self.refused = 0

    @property
    def connections(self) -> int:
        return len(self.dialogues)

    def _serve(self, dialogue: Dialogue) -> None:
        dialogue.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _Conversation(self, dialogue).run()


class _Conversation:
    """One connection."""

    def __init__(self, server: ClassServer, dialogue: Dialogue) -> None:
        self._server = server
        self._dialogue = dialogue
        self._seen: Seen | None = None  # of a MAIL that was accepted

    def run(self) -> None:
        """Serve until QUIT or the client's end."""
        self._dialogue.say("220 choosy.example ESMTP")
        while True:
            line = self._dialogue.line()
            match line[:4].upper():
                case "EHLO":
                    self._hello()
                case "MAIL":
                    self._mail(line)
                case "RCPT":
                    self._rcpt(line)
                case "DATA":
                    self._data()
                case "QUIT":
                    self._dialogue.say("221 bye")
                    return
                case _:
                    self._seen = None
                    self._dialogue.say("250 fine")

    def _hello(self) -> None:
        if not self._server.knows_ehlo:
            self._dialogue.say("502 5.5.2 unknown command")
            return
        lines = ["choosy.example", *self._server.extensions]
        marks = ["-"] * (len(lines) - 1) + [" "]
        hello = (f"250{mark}{text}" for mark, text in zip(marks, lines, strict=True))
        self._dialogue.say("\n".join(hello))

    def _mail(self, line: str) -> None:
        size = _SIZE.search(line)
        seen = Seen(sender=_path(line), size=int(size[1]) if size else 0)
        self._server.senders[seen.sender] += 1
        if self._departs(Phase.MAIL, seen):
            return
        self._seen = seen
        self._dialogue.say("250 2.1.0 ok")

    def _rcpt(self, line: str) -> None:
        if self._seen is None:
            self._dialogue.say("503 5.5.1 MAIL first")
            return
        self._seen.recipients.append(_path(line))
        if refusal := self._server.mailbox(_path(line)):
            self._dialogue.say(refusal)
            return
        if self._departs(Phase.RCPT, self._seen):
            return
        if self._server.pause:
            self._dialogue.stopped.wait(self._server.pause)
        self._seen.accepted.append(_path(line))
        self._dialogue.say("250 2.1.5 ok")

    def _data(self) -> None:
        seen, dialogue = self._seen, self._dialogue
        if seen is None or not seen.accepted:
            dialogue.say("503 5.5.1 RCPT first" if seen is None else "554 5.5.1 no recipients")
            return
        if self._departs(Phase.DATA, seen):
            return
        dialogue.say("354 go on")
        self._departs(Phase.BODY, seen)
        dialogue.content()
        dialogue.bodies.clear()
        self._seen = None
        if self._departs(Phase.DOT, seen):
            return
        self._server.copies.update(seen.accepted)
        dialogue.say("250 2.0.0 queued")

    def _departs(self, phase: Phase, seen: Seen) -> bool:
        """Do what the habit is, where it is about this command of this email."""
        habit = self._server.habit
        if habit is None or habit.phase is not phase or not self._server.refuses(seen):
            return False
        if habit.after_accepted and not seen.accepted:
            return False
        self._server.refused += 1
        if not isinstance(habit.answer, str):
            habit.answer(self._dialogue)
            return True
        self._dialogue.say(habit.answer)
        if habit.answer.startswith("421"):
            hang_up(self._dialogue)
        return True


def _path(line: str) -> str:
    found = _PATH.search(line)
    return found[1] if found else ""
