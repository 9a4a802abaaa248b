"""An SMTP server that refuses by the session: it takes so much over one, and more over the next."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.servers.smtp.scripted import ScriptedServer

if TYPE_CHECKING:
    from tests.support.servers.smtp.dialogue import Dialogue

PLAIN = ("8BITMIME", "ENHANCEDSTATUSCODES")
PIPELINING = (*PLAIN, "PIPELINING")


@dataclass
class Talk:
    """One session: its number, and what it has brought."""

    number: int
    taken: int = 0  # emails
    mails: int = 0  # MAIL commands
    is_open: bool = False  # MAIL was accepted
    recipients: list[str] = field(default_factory=list)


class SessionServer(ScriptedServer):
    """Gives these replies at MAIL, RCPT, DATA or `.` over the sessions that it `refuses`.

    It goes on after each refusal but a 421. `taken` has each email's session and recipients, and
    `refused` the session of each refusal.
    """

    def __init__(
        self,
        replies: Mapping[str, str] | None = None,
        refuses: Callable[[Talk], bool] = lambda _: False,
        *,
        extensions: Sequence[str] = PLAIN,
        reply_to: Callable[[str], str] = lambda _: "250 2.1.5 ok",
    ) -> None:
        """`reply_to` returns the usual reply to a recipient."""
        super().__init__()
        self.otherwise = (self._serve,)
        self.taken: list[tuple[int, tuple[str, ...]]] = []
        self.refused: list[int] = []
        self.refuses = refuses
        self.greets: Callable[[int], str] = lambda _: "220 sessions.example ESMTP"  # by session
        self._replies = replies or {}
        self._extensions = extensions
        self._reply_to = reply_to
        self._lock = threading.Lock()

    @property
    def emails(self) -> list[int]:
        """How many emails each session brought, one after the other."""
        counts = Counter(number for number, _ in self.taken)
        return [counts[number] for number in range(len(self.dialogues))]

    @property
    def mails(self) -> list[int]:
        """How many MAIL commands each session brought."""
        return [self.verbs(number).count("MAIL") for number in range(len(self.dialogues))]

    def _serve(self, dialogue: Dialogue) -> None:
        talk = Talk(next(n for n, other in enumerate(self.dialogues) if other is dialogue))
        greeting = self.greets(talk.number)
        dialogue.say(greeting)
        while greeting.startswith("220"):
            line = dialogue.line()
            verb = line.partition(" ")[0].upper()
            reply = self._reply(talk, verb, line)
            dialogue.say(reply)
            if reply.startswith("354"):
                dialogue.content()
                reply = self._of_content(talk)
                dialogue.say(reply)
            if reply.startswith(("221", "421")):
                return

    def _reply(self, talk: Talk, verb: str, line: str) -> str:
        match verb:
            case "EHLO":
                return "\n".join([*(f"250-{e}" for e in ("s.example", *self._extensions)), "250 X"])
            case "MAIL":
                reply, talk.mails = self._or_refusal(talk, verb, "250 2.1.0 ok"), talk.mails + 1
                talk.is_open, talk.recipients = reply.startswith("2"), []
                return reply
            case "RCPT" if talk.is_open:
                address = line.partition("<")[2].rpartition(">")[0]
                reply = self._or_refusal(talk, verb, self._reply_to(address))
                talk.recipients += [address] * reply.startswith("2")
                return reply
            case "DATA" if talk.recipients:
                return self._or_refusal(talk, verb, "354 go on")
            case "RCPT" | "DATA":
                return "503 5.5.1 no"
            case "QUIT":
                return "221 bye"
            case _:
                talk.is_open, talk.recipients = False, []
                return "250 ok"

    def _of_content(self, talk: Talk) -> str:
        reply = self._or_refusal(talk, ".", "250 2.0.0 queued")
        if reply.startswith("2"):
            talk.taken += 1
            with self._lock:
                self.taken.append((talk.number, tuple(talk.recipients)))
        talk.is_open, talk.recipients = False, []
        return reply

    def _or_refusal(self, talk: Talk, place: str, usual: str) -> str:
        if place not in self._replies or not self.refuses(talk):
            return usual
        self.refused.append(talk.number)
        return self._replies[place]


def more_than(emails: int) -> Callable[[Talk], bool]:
    """Refuse what comes behind so many emails of a session."""
    return lambda talk: talk.taken >= emails
