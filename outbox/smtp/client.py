"""One email as one SMTP transaction with a typed result: `Client.transact`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from ..domain.delivery.reply_table import Event, judge
from ..domain.delivery.session_refusal import is_of_session
from ..domain.delivery.transaction import Envelope, Phase, Reply, Transaction
from ..domain.mime.seven_bit import seven_bit
from .body import BLOCK, Torn, stuffed, write_body
from .envelope_session import DATA, GROUP, EnvelopeSession
from .no_reply_yet import NoReplyYet
from .reply_reader import NoReply, parse_reply
from .session_errors import Unwanted
from .transaction_result import RecipientRefusals, all_refused, transaction_from

if TYPE_CHECKING:
    from collections.abc import Callable


class Client(EnvelopeSession):
    """A session that sends emails, each with a verdict by `domain.delivery.reply_table`.

    Where the server offers PIPELINING (RFC 2920), an email's commands leave as a group. The next
    email's commands leave behind its content. So an email takes one round trip.

    After `transact` the connection is ready for the next MAIL, or closed, or spent, or has the
    commands of the `announced` email in flight.
    """

    stale = False
    """Whether the connection ended before MAIL, as idle ones do, or its EHLO may be outdated, or
    the server refused the session and not the email."""

    is_spent = False
    """Whether the server said that its refusal is of the session: that one takes no more emails. It
    is left as it is, because QUIT takes time, and the refusal is known."""

    _is_cut = False  # not all of the announcement has left: the connection takes no other email

    @property
    def ready(self) -> bool:
        """Whether the connection is open as far as we know."""
        return self.sock is not None

    def transact(
        self,
        envelope: Envelope,
        content: bytes,
        fence: Callable[[], bool],
        following: Envelope | None = None,
    ) -> Transaction:
        """Send one email; `content` has CRLF line ends and is not dot-stuffed.

        `fence` returns False when the lease is lost. Then the connection is closed before the
        content, or before its final dot, and the email is UNSENT. What `fence` raises is passed on.
        `following` is the email that comes next: its commands may leave with this email's content.
        They commit to nothing, because no email is sent without its own content.

        A content of 8 bits is encoded for a server without 8BITMIME (RFC 6152 §3). Where it is
        signed it cannot be encoded, and the verdict is LACKING.
        Raises NoReplyYet where `stays` ends the wait for the content's reply: no other email may
        follow then.
        """
        self.phase, self.stale, self.is_spent = Phase.MAIL, False, False
        self._until = self._clock() + self._server.transaction_timeout
        if is_converted := (encoded := self._encoded(envelope, content)) is not None:
            envelope, content = replace(envelope, eightbit=False, size=len(encoded)), encoded
        room = len(envelope.recipients) if self.limits is None else self._name(envelope)
        refusals = RecipientRefusals(envelope, room)
        try:
            self._start(envelope, len(content), refusals)
            if refusals.everybody:
                self._raise_halted(refusals)
                result = all_refused(refusals)
                replies = (one.reply for one in result.recipients)
                self.is_spent = any(is_of_session(Phase.RCPT, reply) for reply in replies)
                self._reset_unless_spent()
            else:
                ahead = None if refusals.go_on else following
                reply = self._content(content, fence, ahead)
                result = self._conclude(reply, None, refusals)
        except NoReply as none:
            if none.event is Event.GIVEN_UP and self.phase is Phase.DOT:
                until = self._clock() + none.left
                wait = partial(self._late, refusals, until, is_converted)
                raise NoReplyYet(wait, self.farewell) from None
            result = self._conclude(none.reply, none.event, refusals)
        except Unwanted as end:
            result = self._conclude(end.reply, None, refusals)
        except BaseException:
            # Never finish DATA after an error of our own: half an email would be delivered.
            self.close()
            raise
        finally:
            self._until = inf
        return replace(result, converted=True) if is_converted else result

    def _encoded(self, envelope: Envelope, content: bytes) -> bytes | None:
        """Return the content for a server without 8BITMIME, or None where it goes as it is."""
        if not envelope.eightbit or not self.ready or "8bitmime" in self.esmtp_features:
            return None
        return seven_bit(content)

    def close(self) -> None:
        """Close without QUIT. An announced email is forgotten; none of its content was sent."""
        self.announced, self._is_cut = None, False
        super().close()

    def farewell(self) -> None:
        """Send QUIT and close. After an announcement only close: QUIT would be read as content."""
        if self.announced is None:
            super().farewell()
        else:
            self.close()

    def _content(
        self, content: bytes, fence: Callable[[], bool], following: Envelope | None
    ) -> Reply:
        """Write the content, announce the email that follows, and return the final dot's reply."""
        self.phase = Phase.BODY
        if self.sock is None:
            raise NoReply(Event.CLOSED, "the connection is closed")
        # A large email fills the line without them, and its octets should not be copied again.
        behind = self._announcement(following if len(content) < BLOCK else None)
        wire, seconds = stuffed(content), self._server.command_timeout
        try:
            departed = write_body(
                self.sock,
                wire,
                behind,
                fence,
                seconds,
                self._left,
                self.progress,
                self.goes_on,
                self._clock,
            )
        except Torn as torn:
            self.phase = torn.phase
            raise
        self.announced = following if departed else None
        self._is_cut = 0 < departed < len(behind)
        # From here on only waiting helps: if the wait for the reply is ended, the email is unknown.
        self._until = inf
        self.phase, self._patience = Phase.DOT, self._server.dot_timeout
        try:
            return parse_reply(*self.getreply())
        finally:
            self._patience = self._server.command_timeout

    def _late(self, refusals: RecipientRefusals, until: float, is_converted: bool) -> Transaction:
        """Wait until then for the reply to the content that has left: no other email follows."""
        self._patience, self.stays = max(0.0, until - self._clock()), lambda: True
        event = None
        try:
            reply = parse_reply(*self.getreply())
        except NoReply as none:
            reply, event = none.reply, none.event
        return replace(self._conclude(reply, event, refusals), converted=is_converted)

    def _announcement(self, following: Envelope | None) -> bytes:
        """Return the commands of the next email, or nothing where they must wait for their turn."""
        if following is None or "pipelining" not in self.esmtp_features:
            return b""
        if len(following.recipients) > GROUP - 2:
            return b""
        if self.limits is not None and self._room(following) < len(following.recipients):
            return b""
        try:
            return b"".join([*self._lines(following, following.size), DATA])
        except NoReply:  # the server cannot take it: the email gets that verdict in its own turn
            return b""

    def _reset_unless_spent(self) -> None:
        """Make the session ready for the next MAIL, unless it is spent."""
        if self.is_spent:
            self.stale = True
        else:
            self._reset()

    def _conclude(
        self, reply: Reply, event: Event | None, refusals: RecipientRefusals
    ) -> Transaction:
        """Judge what ended the transaction and leave the connection clean for the next email."""
        phase = self.phase
        judgement = judge(phase, reply, event=event)
        if event is None and phase is Phase.DOT:
            self.errors = self.errors + 1 if reply.code >= 400 else 0
        if event is None and reply.code >= 400:
            self.is_spent = is_of_session(phase, reply)
        if judgement.renew:
            # Postfix answers 503 to MAIL behind a content that it refused: it still has that email
            # open.
            is_over = reply.code in (421, 503) or event is Event.CLOSED
            self.stale = self.is_spent or (phase is Phase.MAIL and is_over)
            self.close()
        elif event is Event.LACKING:
            self.stale = True  # the server may have been reconfigured since its EHLO
        elif self.is_spent or phase is Phase.DATA:
            self._reset_unless_spent()
        if self._is_cut or (self._ahead and self.announced is None):
            self.close()  # the next email must not take an old reply for its own
        result = transaction_from(phase, reply, judgement, refusals)
        if event is Event.TOO_LONG:
            return replace(result, took_too_long=True)
        return replace(result, wait_given_up=True) if event is Event.GIVEN_UP else result
