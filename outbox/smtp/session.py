"""A session with one server, from the connection to AUTH: smtplib's, with our deadlines and TLS."""

from __future__ import annotations

import smtplib
import socket
import ssl
import time
from math import inf
from typing import TYPE_CHECKING, Any

from ..domain.delivery.halt_reason import TOO_LONG
from ..domain.delivery.reply_table import Event, judge
from ..domain.delivery.transaction import Phase, Transaction
from .command import command
from .reply_reader import NoReply, ReplyReader
from .session_errors import Unwanted, explain, octets, unquoted
from .tcp import connect
from .tls import Handshake, context_of
from .transaction_result import halt_transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..domain.config.servers import ServerSettings

_RSET = command("RSET")

_FIRST_OF_CREDENTIALS = 510
"""From this code on AUTH is refused to whoever asks (RFC 4954 §6). 500 to 504 are about the command
and its mechanism."""

RESTED = 5.0
"""Seconds without a reply after which a session may be gone, and nobody was told: a firewall on the
way has forgotten it, or the server's host is dead."""

QUIT_SECONDS = 2.0
"""The deadline of QUIT. Its reply changes nothing."""

QUIT_AFTER_REST = 0.3
"""The same over a session that has rested: the next email waits meanwhile. A server that is there
answers at once, and may take no new session before it has read QUIT."""


class Session(smtplib.SMTP):
    """smtplib's commands over replies that are bounded in length and in total time.

    `phase` says where the dialogue stands. Not thread-safe. Never prints the dialogue.
    """

    def __init__(
        self, server: ServerSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # A name is always given: without one smtplib asks DNS, which can hang for a minute.
        super().__init__(local_hostname=server.helo_name or "localhost")
        self.phase = Phase.CONNECT
        self._server = server
        self._clock = clock
        self._host = server.host  # what TLS verifies
        self._patience = server.command_timeout
        self._until = inf  # on our clock: the deadline of a transaction as a whole
        self._replies: ReplyReader | None = None
        self._auth_refusal: Unwanted | None = None  # of the credentials, by one mechanism
        self._heard_at = clock()  # when the last reply came
        self.progress: Callable[[], object] = _nothing  # called at each reply and block of content
        self.goes_on: Callable[[], bool] = _always  # asked while a command's reply does not come
        self.stays: Callable[[], bool] = _always  # asked while a content's reply does not come

    @property
    def has_rested(self) -> bool:
        """Whether the session may be gone unnoticed."""
        return self._clock() - self._heard_at > RESTED

    def open(self) -> Transaction | None:
        """Make the session ready for emails, or return a HALT transaction that says why it is not.

        Where TLS is asked for, only EHLO and STARTTLS are sent in clear (RFC 3207 §4.1).
        """
        try:
            self._greet()
            self._hello()
            if self._server.security == "starttls":
                self._secure()
            if self._server.username is not None:
                self._authenticate(self._server.username, self._server.password or "")
        except (OSError, ValueError) as error:  # smtplib's exceptions are OSErrors too
            self.close()
            reply, event = explain(error)
            judgement = judge(self.phase, reply, event=event)
            if self.phase is Phase.AUTH:
                reply = unquoted(reply, event)
            return halt_transaction(self.phase, reply, judgement)
        except BaseException:
            self.close()
            raise
        return None

    def farewell(self) -> None:
        """Send QUIT with a short deadline and close. Errors are ignored: nothing depends on it."""
        seconds = QUIT_AFTER_REST if self.has_rested else QUIT_SECONDS
        self._patience = min(seconds, self._server.command_timeout)
        try:
            if self.sock is not None:
                self.sock.settimeout(self._patience)
                self.docmd("QUIT")
        except OSError:
            pass
        finally:
            self.close()

    def getreply(self) -> tuple[int, bytes]:
        """Read one whole reply within its deadline; else close the connection and raise NoReply.

        Only if `stays` has ended the wait does the connection stay open: the reply may still come.
        """
        if self.sock is None:
            raise NoReply(Event.CLOSED, "the connection is closed")
        if self._replies is None or self._replies.sock is not self.sock:
            self._replies = ReplyReader(self.sock, self._clock)
        left, patience = self._until - self._clock(), self._patience
        try:
            reply = self._replies.read(
                patience if patience < left else max(0.0, left),
                self.stays if self.phase is Phase.DOT else self.goes_on,
            )
        except NoReply as none:
            if none.event is Event.GIVEN_UP and self.phase is Phase.DOT:
                raise
            self.close()
            if none.event is Event.TIMEOUT and left <= patience:
                raise NoReply(Event.TOO_LONG, TOO_LONG) from none
            raise
        self._heard_at = self._clock()
        self.progress()
        return reply

    def _left(self) -> float:
        """Return the seconds that are left for the transaction; infinite outside of one."""
        return max(0.0, self._until - self._clock()) if self._until < inf else inf

    def _agreed(self, commands: int) -> bool:
        """Take the replies up to DATA's 354 if all are here and good; return whether they were."""
        return self._replies is not None and self._replies.agreed(commands)

    @property
    def _ahead(self) -> bool:
        """Whether the server sent more than it was asked for: then no reply can be trusted."""
        return self._replies is not None and self._replies.pending

    def putcmd(self, cmd: str, args: str = "") -> None:
        """Send one command line, built by `command`."""
        self._write(command(cmd, args) if args else command(cmd))

    def _write(self, line: bytes) -> None:
        if self.sock is None:
            raise NoReply(Event.CLOSED, "the connection is closed")
        if self.sock.gettimeout() != self._patience:  # a content may have left another one
            self.sock.settimeout(self._patience)
        try:
            self.sock.sendall(line)
        except OSError as error:
            self.close()
            raise NoReply.of(error) from error

    def _reset(self) -> None:
        if self.sock is not None:
            self._ask_in_passing(_RSET)
        if self._ahead:
            self.close()

    def _ask_in_passing(self, line: bytes) -> None:
        """Send a line that changes no verdict. Close if no reply comes, or a bad one to RSET."""
        self._patience = min(self._server.connect_timeout, self._server.command_timeout)
        try:
            self._write(line)
            code, _ = self.getreply()
            if code // 100 != 2 and line is _RSET:
                self.close()
        except NoReply:
            self.close()
        finally:
            self._patience = self._server.command_timeout

    def _greet(self) -> None:
        self.phase = Phase.CONNECT
        self.sock = self._get_socket(self._host, self._server.port, self._server.connect_timeout)
        self.sock.settimeout(self._patience)
        self.local_hostname = self._server.helo_name or _local_name(self.sock)
        self.phase = Phase.GREETING
        self._expect_success(*self.getreply())

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """Do what smtplib's own does, with one deadline for all addresses."""
        return connect(host, port, timeout, self._clock)

    def _hello(self) -> None:
        """Send EHLO, or HELO where the server does not know EHLO (RFC 5321 §3.2)."""
        self.phase = Phase.EHLO
        code, lines = self.ehlo()
        if code >= 500 and code != 530:
            code, lines = self.helo()
        self._expect_success(code, lines)

    def _secure(self) -> None:
        """Send STARTTLS and EHLO (RFC 3207): from here on the connection is TLS or closed."""
        self.phase = Phase.STARTTLS
        in_clear = self._replies
        self._patience = min(self._server.connect_timeout, self._server.command_timeout)
        try:
            wraps: Any = self._handshake()  # that is all that smtplib asks of a context
            self.starttls(context=wraps)
        finally:
            self._patience = self._server.command_timeout
        # An attacker could have injected octets ("Why TLS is better without STARTTLS", 2021).
        if in_clear is None or in_clear.pending:
            raise NoReply(Event.GARBAGE, "the server sent clear text after its reply to STARTTLS")
        self._hello()

    def _handshake(self) -> Handshake:
        return Handshake(context_of(self._server), self.goes_on, self._clock)

    def _authenticate(self, username: str, password: str) -> None:
        self.phase = Phase.AUTH
        if not isinstance(self.sock, ssl.SSLSocket) and not self._server.cleartext_auth:
            raise NoReply(Event.LACKING, "credentials are not sent over an unencrypted connection")
        if not (username + password).isascii():
            raise NoReply(Event.LACKING, "credentials that are not ASCII cannot be sent")
        if "auth" not in self.esmtp_features:
            raise NoReply(Event.LACKING, "the server does not offer AUTH")
        try:
            self.login(username, password)
        except smtplib.SMTPException as error:
            raise self._why_no_login(error) from None
        if self._ahead:  # the rest would be taken for the reply to MAIL, and its text kept
            raise NoReply(Event.GARBAGE, "the server sent more than one reply")

    def auth(self, *arguments: Any, **options: Any) -> tuple[int, bytes]:
        """Try one mechanism, as smtplib's own does; note where it is refused for good."""
        try:
            return super().auth(*arguments, **options)
        except smtplib.SMTPAuthenticationError as error:
            if error.smtp_code >= _FIRST_OF_CREDENTIALS and self._auth_refusal is None:
                self._auth_refusal = Unwanted(error.smtp_code, octets(error.smtp_error))
            raise

    def _why_no_login(self, error: smtplib.SMTPException) -> smtplib.SMTPException:
        """Return what the session's start is judged by where no mechanism was accepted.

        smtplib tries one after the other. A server that has refused the credentials may hang up on
        the next try, or put it off: then the refusal is what a person must know.
        """
        last: smtplib.SMTPException
        if isinstance(error, smtplib.SMTPResponseException):
            last = Unwanted(error.smtp_code, octets(error.smtp_error))
            if error.smtp_code >= 500:
                return last
        elif isinstance(error, NoReply):
            last = error
        else:
            last = NoReply(Event.LACKING, "the server offers no AUTH mechanism we know")
        return self._auth_refusal or last

    def _expect_success(self, code: int, lines: bytes) -> None:
        if code // 100 != 2:
            raise Unwanted(code, lines)


class TLSSession(Session):
    """A session with TLS from the first octet on (RFC 8314 §3.3)."""

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        sock = super()._get_socket(host, port, timeout)
        sock.settimeout(timeout)  # the handshake's: to connect it had the share of one address
        try:
            return self._handshake().wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise


def _nothing() -> None:
    """Ignore progress: nobody asked for it."""


def _always() -> bool:
    """Wait on: no other email is known to wait."""
    return True


def _local_name(sock: socket.socket) -> str:
    """Return this host's full name, or its address as a literal (RFC 5321 §4.1.4): no DNS."""
    name = socket.gethostname()
    if "." in name and name.isascii() and name.isprintable() and " " not in name:
        return name
    address = str(sock.getsockname()[0]).partition("%")[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"
