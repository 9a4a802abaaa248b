"""The SMTP server of these tests: it outlives whoever dies, and counts each recipient's copies.

By the first word of an address: `refused` gets 550 at RCPT, `later` gets 451 the first time, and a
content for `unwanted` gets 554 behind its final dot. All others are accepted, two a transaction.
"""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from dataclasses import dataclass

from tests.support.servers.smtp.dialogue import Dialogue, HangupError
from tests.support.servers.smtp.scripted import ScriptedServer
from tests.support.waiting import wait_until

MOST = 2
"""Recipients in one transaction; the next one gets 452."""

_PATIENCE = 120.0  # seconds: a client that sleeps must find its connection open

_MESSAGE_ID = re.compile(rb"^Message-ID:\s*(\S+)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """A content that came whole, with its final dot."""

    recipients: tuple[str, ...]
    message_id: str
    accepted: bool


class Ledger(ScriptedServer):
    """Enters each content before the client can know of it, so that a kill loses no entry."""

    def __init__(self, *, pipelining: bool) -> None:
        super().__init__()
        self.otherwise = (self._serve,)
        self._pipelining = pipelining
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self.contents: list[Content] = []

    def copies(self) -> Counter[tuple[str, str]]:
        """Return how often each recipient got each email: (recipient, Message-ID) -> copies."""
        taken = [content for content in self.contents if content.accepted]
        return Counter((to, content.message_id) for content in taken for to in content.recipients)

    def wait_idle(self) -> None:
        """Wait until it has read all that the dead have written."""
        idle = lambda: all(dialogue.over.is_set() for dialogue in self.dialogues)  # noqa: E731
        wait_until(idle, 60, "the server has no client any more")

    def forget(self) -> None:
        """Begin anew."""
        self.wait_idle()
        self._seen.clear()
        self.contents.clear()
        for dialogue in self.dialogues:
            dialogue.bodies.clear()

    def _serve(self, dialogue: Dialogue) -> None:
        # Several replies in a row must not wait for an acknowledgement (Nagle).
        dialogue.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dialogue.sock.settimeout(_PATIENCE)
        dialogue.say("220 ledger.example ESMTP")
        recipients: list[str] = []
        while True:
            line = dialogue.line()
            match line[:4].upper():
                case "EHLO":
                    more = ["PIPELINING"] if self._pipelining else []
                    lines = ["ledger.example", "8BITMIME", *more]
                    marked = [f"250-{text}" for text in lines]
                    dialogue.say("\n".join([*marked, "250 SIZE 10000000"]))
                case "RCPT":
                    address = line.partition("<")[2].rpartition(">")[0]
                    reply = self._answer(address, len(recipients))
                    if reply.startswith("2"):
                        recipients.append(address)
                    dialogue.say(reply)
                case "DATA" if not recipients:
                    dialogue.say("554 5.5.1 no valid recipients")
                case "DATA":
                    dialogue.say("354 go on")
                    dialogue.content()
                    dialogue.say(self._enter(tuple(recipients), dialogue.bodies[-1]))
                    recipients = []
                case "QUIT":
                    dialogue.say("221 bye")
                    raise HangupError
                case verb:
                    recipients = [] if verb in ("MAIL", "RSET") else recipients
                    dialogue.say("250 2.0.0 fine")

    def _answer(self, address: str, before: int) -> str:
        with self._lock:
            first = address not in self._seen
            self._seen.add(address)
        if address.startswith("refused"):
            return "550 5.1.1 no such user"
        if address.startswith("later") and first:
            return "451 4.7.1 greylisted"
        return "452 4.5.3 too many recipients" if before == MOST else "250 2.1.5 fine"

    def _enter(self, recipients: tuple[str, ...], body: bytes) -> str:
        unwanted = any(address.startswith("unwanted") for address in recipients)
        found = _MESSAGE_ID.search(body)
        content = Content(
            recipients=recipients,
            message_id=found[1].decode() if found else "",
            accepted=bool(recipients) and not unwanted,
        )
        with self._lock:
            self.contents.append(content)
        return "250 2.0.0 queued" if content.accepted else "554 5.6.0 not this one"
