"""An SMTP server that does exactly what a script says, for what no real server does on demand.

A script is a list of steps for one connection. Each takes the next script, and at last `otherwise`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from outbox.domain.config.servers import ServerSettings
from tests.support.servers.smtp.client import server_settings
from tests.support.servers.smtp.dialogue import Dialogue, HangupError

if TYPE_CHECKING:
    import ssl

PATIENCE = 10.0
"""Seconds after which a script that waits for its client gives up."""

Step = Callable[[Dialogue], None]
Script = Sequence[Step]


def say(reply: str) -> Step:
    """Send a reply that nobody asked for, as the greeting."""
    return lambda dialogue: dialogue.say(reply)


def expect(command: str, reply: str | None) -> Step:
    """Read a line that must start with the command; answer, or stay silent."""

    def step(dialogue: Dialogue) -> None:
        line = dialogue.line()
        assert line.upper().startswith(command.upper()), f"expected {command}, got {line}"
        if reply is not None:
            dialogue.say(reply)

    return step


def content(reply: str | None) -> Step:
    """Read an email's content with its final dot; answer, or stay silent."""

    def step(dialogue: Dialogue) -> None:
        dialogue.content()
        if reply is not None:
            dialogue.say(reply)

    return step


def raw(octets: bytes) -> Step:
    """Send octets as they are."""
    return lambda dialogue: dialogue.sock.sendall(octets)


def drip(piece: bytes, times: int = 500, interval: float = 0.02) -> Step:
    """Send a piece again and again, until the client goes away."""

    def step(dialogue: Dialogue) -> None:
        for _ in range(times):
            dialogue.sock.sendall(piece)
            if dialogue.stopped.wait(interval):
                return

    return step


def stall(dialogue: Dialogue) -> None:
    """Say nothing until the client goes away."""
    with contextlib.suppress(HangupError):
        while True:
            dialogue.receive()


def freeze(dialogue: Dialogue) -> None:
    """Say nothing and read nothing until the test is over."""
    dialogue.stopped.wait(PATIENCE)


def close(dialogue: Dialogue) -> None:
    """Close the connection in order."""
    raise HangupError


def reset(dialogue: Dialogue) -> None:
    """Close the connection with a TCP reset."""
    dialogue.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise HangupError


def take(octets: int, then: Step) -> Step:
    """Read at least so many content octets and then do another step."""

    def step(dialogue: Dialogue) -> None:
        while len(dialogue.data) < octets:
            dialogue.receive()
        then(dialogue)

    return step


def handshake(context: ssl.SSLContext) -> Step:
    """Go on under TLS."""

    def step(dialogue: Dialogue) -> None:
        dialogue.sock = context.wrap_socket(dialogue.sock, server_side=True)

    return step


def serve(dialogue: Dialogue) -> None:
    """Be a good server until QUIT or the end."""
    while True:
        verb = dialogue.line()[:4].upper()
        if verb == "DATA":
            dialogue.say("354 go on")
            dialogue.content()
        dialogue.say("221 bye" if verb == "QUIT" else "250 2.0.0 fine")
        if verb == "QUIT":
            return


MAIL, RCPT, DATA, RSET = (
    expect("MAIL", "250 ok"),
    expect("RCPT", "250 ok"),
    expect("DATA", "354 go on"),
    expect("RSET", "250 ok"),
)
GREET = say("220 scripted.example ESMTP")
EXTENSIONS = "250-scripted.example\n250-8BITMIME\n250-SIZE 1000000\n250 SMTPUTF8"
HELLO: Script = (GREET, expect("EHLO", EXTENSIONS))
AT_RCPT: Script = (*HELLO, MAIL)  # of a dialogue without a fault: the next command is RCPT
AT_DATA: Script = (*AT_RCPT, RCPT)
AT_DOT: Script = (*AT_DATA, DATA)
GOOD: Script = (*HELLO, serve)


class ScriptedServer:
    """Serves each connection on a thread of its own, on a free port of 127.0.0.1 or on `port`.

    Leaving the `with` block ends and joins all threads and raises what went against a script.
    """

    otherwise: Script = GOOD

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._scripts = scripts
        self._tls = tls
        self._stopped = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._run, name="scripted-smtp")
        self._talks: list[threading.Thread] = []
        self._failures: list[AssertionError] = []
        self.dialogues: list[Dialogue] = []

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listener.getsockname()[1])

    def settings(self, **changes: object) -> ServerSettings:
        """Return a client's settings for this server."""
        return server_settings(self.port, **changes)

    @property
    def bodies(self) -> list[bytes]:
        """All contents that came whole, with their final dots."""
        return [body for dialogue in self.dialogues for body in dialogue.bodies]

    def verbs(self, connection: int) -> list[str]:
        """Return the commands of one connection, without their arguments."""
        return [line.split(" ")[0].upper() for line in self.dialogues[connection].lines]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stopped.set()
        self.refuse()
        for dialogue in self.dialogues:
            with contextlib.suppress(OSError):
                dialogue.sock.shutdown(socket.SHUT_RDWR)
        for talk in self._talks:
            talk.join(PATIENCE)
        assert not any(talk.is_alive() for talk in (self._thread, *self._talks)), "it hangs"
        if self._failures and raised[0] is None:
            raise self._failures[0]

    def refuse(self) -> None:
        """Refuse new connections from now on; those that are open go on."""
        # Wakes `accept`; on Linux a close alone would not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listener.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.settimeout(PATIENCE)
            dialogue = Dialogue(sock, self._stopped)
            self.dialogues.append(dialogue)
            number = len(self.dialogues) - 1
            self._talks.append(threading.Thread(target=self._talk, args=(dialogue, number)))
            self._talks[-1].start()

    def _talk(self, dialogue: Dialogue, number: int) -> None:
        script = self._scripts[number] if number < len(self._scripts) else self.otherwise
        try:
            if self._tls is not None:
                handshake(self._tls)(dialogue)
            for step in script:
                step(dialogue)
        except AssertionError as failure:
            self._failures.append(failure)
        except (HangupError, OSError):
            pass
        finally:
            dialogue.sock.close()
            dialogue.over.set()
