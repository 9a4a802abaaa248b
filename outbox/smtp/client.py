"""One mail as one SMTP transaction with a typed result: `Client.transact`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..domain.replies import Event, judge
from ..domain.verdict import Envelope, Phase, Reply, Transaction, Verdict
from .body import Torn, prepare, write_body
from .command import CommandError, command, lacking, mail_line, rcpt_lines
from .outcome import Refusals, all_refused, conclude
from .reply import NoReply, parse_reply
from .session import Session, TLSSession, Unwanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..domain.settings import ServerSettings

_RSET = command("RSET")
_DATA = command("DATA")
_START_MAIL = 354


class Client(Session):
    """A session that sends mails, each with a verdict by the table of `domain.replies`.

    After `transact` the connection is either ready for the next MAIL or closed. `stale` says that
    it had ended before the last MAIL was answered, as idle connections do.
    """

    stale = False

    @property
    def ready(self) -> bool:
        """Whether the connection is open as far as we know."""
        return self.sock is not None

    def transact(
        self, envelope: Envelope, content: bytes, fence: Callable[[], bool]
    ) -> Transaction:
        """Send one mail; `content` has CRLF line ends and is not dot-stuffed.

        `fence` returns False when the lease is lost: then the connection is closed before the
        content, or before its final dot, and the mail is UNSENT. What `fence` raises is passed on.
        """
        self.phase, self.stale = Phase.MAIL, False
        refusals = Refusals()
        try:
            lines = self._lines(envelope, len(content))
            self._ask(lines[0])
            self._recipients(envelope, lines[1:], refusals)
            if len(refusals.results) == len(envelope.recipients):
                self._reset()
                return all_refused(refusals)
            self._start_data()
            reply = self._content(content, fence)
            return self._conclude(envelope, reply, None, refusals)
        except (NoReply, Unwanted) as end:
            return self._conclude(envelope, end.reply, end.event, refusals)
        except BaseException:
            # Never finish DATA after an error of our own: half a mail would be delivered.
            self.close()
            raise

    def _lines(self, envelope: Envelope, size: int) -> list[bytes]:
        """Build the envelope's commands, before any of them leaves."""
        lack = lacking(envelope, size, self.esmtp_features)
        if lack:
            raise NoReply(Event.LACKING, lack)
        try:
            mail = mail_line(envelope, size, self.esmtp_features)
            return [mail, *rcpt_lines(envelope, self.esmtp_features)]
        except CommandError as error:
            raise NoReply(Event.LACKING, str(error)) from None

    def _recipients(self, envelope: Envelope, lines: list[bytes], refusals: Refusals) -> None:
        """RCPT one by one; after "too many recipients" the rest waits for the next transaction."""
        self.phase = Phase.RCPT
        for place, (address, line) in enumerate(zip(envelope.recipients, lines, strict=True)):
            self._write(line)
            code, text = self.getreply()
            if code // 100 == 2:
                continue
            reply, accepted = parse_reply(code, text), len(refusals.results) < place
            judgement = judge(Phase.RCPT, reply, accepted=accepted)
            if judgement.renew:
                raise Unwanted(code, text)
            refusals.add(place, address, reply, judgement)
            if judgement.verdict is Verdict.NEXT:
                for later in range(place + 1, len(lines)):
                    refusals.add(later, envelope.recipients[later], reply, judgement)
                return

    def _start_data(self) -> None:
        self.phase = Phase.DATA
        self._write(_DATA)
        code, text = self.getreply()
        if code != _START_MAIL:
            raise Unwanted(code, text)
        if self._ahead:
            # It would be taken for the reply to the final dot, and the mail for sent.
            raise NoReply(Event.GARBAGE, "the server replied before it was asked")

    def _content(self, content: bytes, fence: Callable[[], bool]) -> Reply:
        """Write the content and return the reply to its final dot."""
        self.phase = Phase.BODY
        if self.sock is None:
            raise NoReply(Event.CLOSED, "the connection is closed")
        try:
            write_body(self.sock, prepare(content), fence, self._server.command_timeout)
        except Torn as torn:
            self.phase = torn.phase
            raise
        self.phase, self._patience = Phase.DOT, self._server.dot_timeout
        try:
            return parse_reply(*self.getreply())
        finally:
            self._patience = self._server.command_timeout

    def _conclude(
        self, envelope: Envelope, reply: Reply, event: Event | None, refusals: Refusals
    ) -> Transaction:
        """Judge what ended the transaction and leave the connection clean for the next mail."""
        phase = self.phase
        judgement = judge(phase, reply, event=event)
        if judgement.renew:
            self.stale = phase is Phase.MAIL and (reply.code == 421 or event is Event.CLOSED)
            self.close()
        elif phase is Phase.DATA:
            self._reset()
        if self._ahead:  # the next mail must not take an old reply for its own
            self.close()
        return conclude(envelope, phase, reply, judgement, refusals)

    def _ask(self, line: bytes) -> None:
        self._write(line)
        self._wanted(*self.getreply(), first_digit=2)

    def _reset(self) -> None:
        """RSET; the mail's verdict stands whatever comes, and anything odd closes."""
        self._patience = min(self._server.connect_timeout, self._server.command_timeout)
        try:
            self._ask(_RSET)
            if self._ahead:
                self.close()
        except (NoReply, Unwanted):
            self.close()
        finally:
            self._patience = self._server.command_timeout


class TLSClient(Client, TLSSession):
    """The same with TLS from the first octet on."""


def client_for(server: ServerSettings, clock: Callable[[], float]) -> Client:
    """Return the client, not yet connected, that speaks to `server` as its settings say."""
    kind = TLSClient if server.security == "tls" else Client
    return kind(server, clock=clock)
