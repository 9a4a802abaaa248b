"""An SMTP server inside the test that remembers every email it accepts."""

import asyncio
import threading
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING, Any, Literal, Self

from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.support.servers.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DSN = {"RET", "ENVID", "NOTIFY", "ORCPT"}

Point = Literal["recipient", "content", "reply"]
"""Where a session can be held: before the reply to RCPT; before the reply to DATA; and before the
reply to the final dot, when the email is already remembered: the server has taken it over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaughtMail:
    """An email that the server answered for, or was about to."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    mail_options: tuple[str, ...] = ()  # as aiosmtpd tells them: in capitals
    rcpt_options: tuple[str, ...] = ()  # of all recipients, one after the other

    @property
    def message_id(self) -> str:
        """The Message-ID with its brackets; empty without one."""
        return str(BytesHeaderParser().parsebytes(self.content)["Message-ID"] or "").strip()


class Gate:
    """Holds every session that comes to a point, until it is opened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = False
        self._held: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._reached = 0

    @property
    def reached(self) -> int:
        """How many sessions have come to it so far."""
        return self._reached

    def open(self) -> None:
        """Let the held sessions go on, and all that come later pass."""
        with self._lock:
            self._open = True
            for loop, passage in self._held:
                with suppress(RuntimeError):  # the server was stopped meanwhile
                    loop.call_soon_threadsafe(passage.set)
            self._held.clear()

    async def passed(self) -> None:
        """Wait for the gate to be open."""
        passage = asyncio.Event()
        with self._lock:
            self._reached += 1
            if self._open:
                return
            self._held.append((asyncio.get_running_loop(), passage))
        await passage.wait()


class Catcher:
    """A context manager; `stop` and `start` play an outage on the same port.

    `reply_to_recipient` and `reply_to_content` are asked for each RCPT and each content; what they
    return is the reply, None accepts. Only an accepted email is remembered.
    """

    host = LOOPBACK

    def __init__(
        self, *, size_limit: int = 64 * 1024 * 1024, smtputf8: bool = True, dsn: bool = False
    ) -> None:
        self.port = free_port()
        self.smtputf8 = smtputf8
        self.dsn = dsn
        self.reply_to_recipient: Callable[[str], str | None] = lambda _recipient: None
        self.reply_to_content: Callable[[CaughtMail], str | None] = lambda _mail: None
        self.size_limit = size_limit
        self._gates: dict[Point, Gate] = {}
        self._emails: list[CaughtMail] = []
        self._sessions = 0
        self.quits = 0
        """How many sessions ended with QUIT, over all starts."""
        self._open: set[_Connection] = set()
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] = lambda: None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def emails(self) -> tuple[CaughtMail, ...]:
        """All accepted emails in their order, over all starts."""
        return tuple(self._emails)

    @property
    def sessions(self) -> int:
        """How many connections were opened, over all starts."""
        return self._sessions

    @property
    def open_sessions(self) -> int:
        """How many connections are open now."""
        return len(self._open)

    def copies(self) -> Counter[tuple[str, str]]:
        """Return how often each recipient got each email: (recipient, Message-ID) -> copies."""
        return Counter(
            (recipient, mail.message_id) for mail in self.emails for recipient in mail.recipients
        )

    def forget(self) -> None:
        """Forget the emails caught so far."""
        self._emails.clear()

    def hold_at(self, point: Point) -> Gate:
        """Hold every session that comes to the point from now on; `open` of the gate ends it."""
        self._gates[point] = Gate()
        return self._gates[point]

    def open_all(self) -> None:
        """Open every gate, so that no process waits at one for its end."""
        for gate in self._gates.values():
            gate.open()

    def start(self) -> None:
        """Listen; return when connections are accepted."""
        assert self._thread is None, "the catcher runs already"
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="catcher", daemon=True
        )
        self._thread.start()
        try:
            started.result(10)
        except BaseException:
            self._thread = None
            raise

    def stop(self) -> None:
        """Refuse connections and break those that are open; does nothing when stopped."""
        if self._thread is not None:
            self._stop()
            self._thread.join()
            self._thread = None

    async def _serve(self, started: "Future[None]") -> None:
        loop = asyncio.get_running_loop()
        end = asyncio.Event()
        try:
            server = await loop.create_server(
                lambda: _Connection(self, loop), self.host, self.port, backlog=128
            )
        except OSError as error:
            started.set_exception(error)
            return
        self._stop = lambda: loop.call_soon_threadsafe(end.set)
        started.set_result(None)
        await end.wait()
        server.close()
        for connection in tuple(self._open):
            connection.abort()

    def opened(self, connection: "_Connection") -> None:
        """Note a new connection."""
        self._sessions += 1
        self._open.add(connection)

    def closed(self, connection: "_Connection") -> None:
        """Note the end of a connection."""
        self._open.discard(connection)

    async def pass_point(self, point: Point) -> None:
        """Wait while the point is held."""
        if gate := self._gates.get(point):
            await gate.passed()

    async def handle_EHLO(  # noqa: N802
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        hostname: str,
        responses: list[str],
    ) -> list[str]:
        """Offer DSN (RFC 3461) where it is wanted."""
        session.host_name = hostname
        return [*responses[:-1], *(["250-DSN"] if self.dsn else []), responses[-1]]

    async def handle_RCPT(  # noqa: N802  (aiosmtpd finds it by this name)
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Answer one recipient."""
        await self.pass_point("recipient")
        if reply := self.reply_to_recipient(address):
            return reply
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Remember the email, then answer for it."""
        content = envelope.original_content
        assert content is not None
        mail = CaughtMail(
            sender=envelope.mail_from or "",
            recipients=tuple(envelope.rcpt_tos),
            content=content,
            mail_options=tuple(envelope.mail_options),
            rcpt_options=tuple(envelope.rcpt_options),
        )
        if reply := self.reply_to_content(mail):
            return reply
        self._emails.append(mail)
        await self.pass_point("reply")
        return "250 2.0.0 OK"


class _Connection(SMTP):
    def __init__(self, catcher: Catcher, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            catcher,
            data_size_limit=catcher.size_limit,
            enable_SMTPUTF8=catcher.smtputf8,
            hostname="catcher.test",
            loop=loop,
        )
        self._catcher = catcher

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._catcher.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._catcher.closed(self)
        super().connection_lost(error)

    def abort(self) -> None:
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    def _getparams(self, params: "Sequence[str]") -> dict[str, Any] | None:
        """Let aiosmtpd, which knows no parameter of DSN, pass them where DSN is offered."""
        found: dict[str, Any] | None = super()._getparams(params)
        if found is None or not self._catcher.dsn:
            return found
        return {name: value for name, value in found.items() if name not in _DSN}

    async def smtp_QUIT(self, arg: str) -> Any:  # noqa: N802
        self._catcher.quits += 1
        return await super().smtp_QUIT(arg)

    async def smtp_DATA(self, arg: str) -> Any:  # noqa: N802
        await self._catcher.pass_point("content")
        return await super().smtp_DATA(arg)
