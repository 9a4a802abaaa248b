"""An SMTP server on loopback that follows a script, so that the outbox's own client is used."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Self

from ..domain.delivery.transaction import Phase
from .enqueued import Delivery
from .replies import Replies

PATIENCE = 10.0
"""Seconds that it waits for a client's next line: no test shall hang."""

_PATH = re.compile(r'<((?:"(?:[^"\\]|\\.)*"@)?[^>]*)>')
_OFFERS = ("PIPELINING", "8BITMIME", "SMTPUTF8", "DSN", "DELIVERBY", "REQUIRETLS")
_HELLO = "\r\n".join(["250-outbox.testing", *(f"250-{word}" for word in _OFFERS), "250 SIZE"])
"""Every extension that an email can ask for: what a server lacks is no matter of the script."""


class ScriptedServer(ThreadingTCPServer):
    """Serves each connection on a thread of its own, on a free port of 127.0.0.1.

    The end of the `with` block joins its threads, so close all connections to it before. After
    that `taken` has what it took.
    """

    def __init__(self, replies: Replies) -> None:
        super().__init__(("127.0.0.1", 0), _Talk)
        self.replies = replies
        self.taken: list[Delivery] = []
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.01}, name="outbox-testing-smtp"
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _HangUp(Exception):
    """The script says to close the connection."""


class _Talk(StreamRequestHandler):
    """One connection."""

    server: ScriptedServer
    timeout = PATIENCE

    def handle(self) -> None:
        self._forget()
        with suppress(OSError, _HangUp):
            self._say("220 outbox.testing ESMTP")
            while line := self.rfile.readline():
                self._answer(line.decode().strip())

    def _forget(self) -> None:
        """Begin a new transaction."""
        self._sender: str | None = None
        self._recipients: list[str] = []

    def _answer(self, line: str) -> None:
        match line[:4].upper():
            case "EHLO":
                self._say(_HELLO)
            case "MAIL":
                self._forget()
                if self._reply(Phase.MAIL, "250 2.1.0 ok"):
                    self._sender = _path(line)
            case "RCPT" if self._sender is None:
                self._say("503 5.5.1 MAIL first")
            case "RCPT":
                if self._reply(Phase.RCPT, "250 2.1.5 ok", _path(line)):
                    self._recipients.append(_path(line))
            case "DATA":
                self._take()
            case "QUIT":
                self._say("221 2.0.0 bye")
                raise _HangUp
            case _:  # RSET among them
                self._forget()
                self._say("250 2.0.0 ok")

    def _take(self) -> None:
        """Ask for a content, read it up to its final dot, and keep it if that gets its 250."""
        if not self._recipients:
            self._say("503 5.5.1 RCPT first")
            return
        if not self._reply(Phase.DATA, "354 go on", *self._recipients):
            return
        lines: list[bytes] = []
        while (line := self.rfile.readline()) != b".\r\n":
            if not line:
                raise _HangUp
            lines.append(line.removeprefix(b"."))
        if self._reply(Phase.DOT, "250 2.0.0 taken", *self._recipients):
            delivery = Delivery(
                octets=b"".join(lines),
                envelope_from=self._sender or "<>",
                recipients=tuple(self._recipients),
            )
            self.server.taken.append(delivery)
        self._forget()

    def _reply(self, phase: Phase, good: str, *recipients: str) -> bool:
        """Say what the script says, or `good`; return whether it was `good`."""
        reply = self.server.replies.find(phase, recipients, good)
        if reply is None:
            raise _HangUp
        self._say(reply)
        if reply.startswith("421"):  # RFC 5321 §3.8: the server closes behind it
            raise _HangUp
        return reply is good

    def _say(self, reply: str) -> None:
        self.wfile.write(f"{reply}\r\n".encode())


def _path(line: str) -> str:
    found = _PATH.search(line)
    return found[1] if found else ""
