"""One email as one SMTP transaction with a typed result: `Client.transact`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from ..domain.delivery.reply_table import Event, is_out_of_step, judge
from ..domain.delivery.transaction import Envelope, Phase, Reply, Transaction
from ..domain.mime.seven_bit import seven_bit
from .body import BLOCK, Torn, stuffed, write_body
from .command import CommandError, command, envelope_lines, lacking
from .no_reply_yet import NoReplyYet
from .reply_reader import NoReply, parse_reply
from .session import Session
from .session_errors import Unwanted
from .transaction_result import RecipientRefusals, all_refused, transaction_from

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = 50
"""The most commands in flight: both sides' buffers hold them, so neither waits for the other."""

MOMENT = 0.001
"""Seconds for which a connection is taken to be as the last reply left it."""

_DATA = command("DATA")
_LONE_DOT = b".\r\n"
_START_MAIL = 354


class Client(Session):
    """A session that sends emails, each with a verdict by `domain.delivery.reply_table`.

    Where the server offers PIPELINING (RFC 2920), an email's commands leave as a group. The next
    email's commands leave behind its content. So an email takes one round trip.

    After `transact` the connection is ready for the next MAIL, or closed, or has the commands of
    the `announced` email in flight.
    """

    stale = False
    """Whether the connection ended before MAIL, as idle ones do, or its EHLO may be outdated."""

    announced: Envelope | None = None
    """The email whose commands are in flight: no other email can come next on this connection."""

    _is_cut = False  # not all of the announcement has left: the connection takes no other email
    _rests_since = 0.0  # on our clock

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
        self.phase, self.stale = Phase.MAIL, False
        self._until = self._clock() + self._server.transaction_timeout
        if is_converted := (encoded := self._encoded(envelope, content)) is not None:
            envelope, content = replace(envelope, eightbit=False, size=len(encoded)), encoded
        refusals = RecipientRefusals(envelope)
        try:
            self._start(envelope, len(content), refusals)
            if refusals.everybody:
                self._raise_halted(refusals)
                self._reset()
                result = all_refused(refusals)
            else:
                ahead = None if refusals.too_many else following
                reply = self._content(content, fence, ahead)
                result = self._conclude(reply, None, refusals)
        except NoReply as none:
            if none.event is Event.GIVEN_UP and self.phase is Phase.DOT:
                until = self._clock() + none.left
                raise NoReplyYet(partial(self._late, refusals, until, is_converted)) from None
            result = self._conclude(none.reply, none.event, refusals)
        except Unwanted as end:
            result = self._conclude(end.reply, None, refusals)
        except BaseException:
            # Never finish DATA after an error of our own: half an email would be delivered.
            self.close()
            raise
        finally:
            self._until, self._rests_since = inf, self._clock()
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

    def _start(self, envelope: Envelope, size: int, refusals: RecipientRefusals) -> None:
        """Send MAIL, RCPT and DATA, in groups where the server allows it, up to DATA's 354."""
        last = len(envelope.recipients) + 1  # the place of DATA, behind MAIL and the recipients
        if self.announced is envelope or self.announced == envelope:
            self.announced = None
            if self._was_ended():
                raise NoReply(Event.CLOSED, "the server ended the connection between two emails")
            if not self._agreed(last):
                self._replies_to(range(last + 1), last, refusals)
            return
        if self.announced is not None:
            self.close()  # the server waits for another email's content
        lines = [*self._lines(envelope, size), _DATA]
        length = GROUP if "pipelining" in self.esmtp_features else 1
        start = 0
        while start <= last and not (start == last and refusals.everybody):
            group = range(start, min(start + length, last + 1))
            self._write(b"".join(lines[group.start : group.stop]))
            self._replies_to(group, last, refusals)
            start = group.stop
            if refusals.too_many and start < last:
                refusals.leave(start - 1)
                start = last

    def _was_ended(self) -> bool:
        """Whether the server ended the connection as it rested: content to it would be in doubt."""
        has_rested = self._clock() - self._rests_since > MOMENT
        return has_rested and self._replies is not None and self._replies.has_ended()

    def _lines(self, envelope: Envelope, size: int) -> list[bytes]:
        """Build the envelope's commands, before any of them leaves."""
        if not envelope.recipients:
            raise NoReply(Event.MALFORMED, "the email has no recipient")
        lack = lacking(envelope, size, self.esmtp_features)
        if lack:
            raise NoReply(Event.LACKING, lack)
        try:
            return envelope_lines(envelope, size, self.esmtp_features)
        except CommandError as error:
            raise NoReply(Event.MALFORMED, str(error)) from None

    def _replies_to(self, group: range, last: int, refusals: RecipientRefusals) -> None:
        """Read every reply of a group, also those behind a refusal (RFC 2920 §3.1)."""
        refused: Unwanted | None = None
        codes: list[int] = []
        for place in group:
            try:
                self.phase = _phase(place, last)
                code, text = self.getreply()
            except NoReply as none:
                if refused is None and not refusals.everybody:
                    if none.event is Event.CLOSED:
                        self._raise_halted(refusals)
                    raise
                break  # the connection is closed, and the refusal stands
            codes.append(code)
            if self.phase is Phase.DATA:
                self._asked_for_content(code, text, wanted=not (refused or refusals.everybody))
            elif code // 100 == 2:
                refusals.accepted += self.phase is Phase.RCPT
            elif refused is None:
                refused = self._refused(place, code, text, refusals)
        if refused is not None:
            self.phase = Phase.MAIL
            if is_out_of_step(codes):
                raise NoReply(Event.GARBAGE, "a reply too many: MAIL refused, a recipient taken")
            raise refused

    def _refused(
        self, place: int, code: int, text: bytes, refusals: RecipientRefusals
    ) -> Unwanted | None:
        """Return the refusal of the whole email, or note that of one recipient."""
        refusal = Unwanted(code, text)
        judgement = judge(self.phase, refusal.reply, accepted=refusals.accepted > 0)
        if self.phase is Phase.RCPT and refusals.add(place - 1, refusal, judgement):
            return None
        if judgement.renew:
            raise refusal
        return refusal

    def _raise_halted(self, refusals: RecipientRefusals) -> None:
        """If a refusal may be about the server, and no recipient gets the email, raise it."""
        if refusals.halted is not None:
            self.phase = Phase.RCPT
            raise refusals.halted

    def _asked_for_content(self, code: int, text: bytes, *, wanted: bool) -> None:
        """Judge the reply to DATA; answer a 354 that is no longer wanted with a lone dot."""
        if wanted and code != _START_MAIL:
            raise Unwanted(code, text)
        if wanted and self._ahead:
            # The rest would be taken for the reply to the final dot, and the email for sent.
            raise NoReply(Event.GARBAGE, "the server replied before it was asked")
        if not wanted and code == _START_MAIL:
            self._ask_in_passing(_LONE_DOT)
        elif code == 421:
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
            left = write_body(
                self.sock, wire, behind, fence, seconds, self._left, self.progress, self.goes_on
            )
        except Torn as torn:
            self.phase = torn.phase
            raise
        self.announced, self._is_cut = following if left else None, 0 < left < len(behind)
        # From here on only waiting helps: if the wait for the reply is ended, the email is unknown.
        self._until = inf
        self.phase, self._patience = Phase.DOT, self._server.dot_timeout
        try:
            return parse_reply(*self.getreply())
        finally:
            self._patience = self._server.command_timeout

    def _late(self, refusals: RecipientRefusals, until: float, is_converted: bool) -> Transaction:
        """Wait until then for the reply to the content that has left, and end the session."""
        self._patience, self.stays = max(0.0, until - self._clock()), lambda: True
        event = None
        try:
            reply = parse_reply(*self.getreply())
        except NoReply as none:
            reply, event = none.reply, none.event
        result = self._conclude(reply, event, refusals)
        self.farewell()
        return replace(result, converted=is_converted)

    def _announcement(self, following: Envelope | None) -> bytes:
        """Return the commands of the next email, or nothing where they must wait for their turn."""
        if following is None or "pipelining" not in self.esmtp_features:
            return b""
        if len(following.recipients) > GROUP - 2:
            return b""
        try:
            return b"".join([*self._lines(following, following.size), _DATA])
        except NoReply:  # the server cannot take it: the email gets that verdict in its own turn
            return b""

    def _conclude(
        self, reply: Reply, event: Event | None, refusals: RecipientRefusals
    ) -> Transaction:
        """Judge what ended the transaction and leave the connection clean for the next email."""
        phase = self.phase
        judgement = judge(phase, reply, event=event)
        if judgement.renew:
            # Postfix answers 503 to MAIL behind a content that it refused: it still has that email
            # open.
            is_over = reply.code in (421, 503) or event is Event.CLOSED
            self.stale = phase is Phase.MAIL and is_over
            self.close()
        elif event is Event.LACKING:
            self.stale = True  # the server may have been reconfigured since its EHLO
        elif phase is Phase.DATA:
            self._reset()
        if self._is_cut or (self._ahead and self.announced is None):
            self.close()  # the next email must not take an old reply for its own
        result = transaction_from(phase, reply, judgement, refusals)
        if event is Event.OVERDUE:
            return replace(result, overdue=True)
        return replace(result, given_up=True) if event is Event.GIVEN_UP else result


def _phase(place: int, last: int) -> Phase:
    if place == 0:
        return Phase.MAIL
    return Phase.DATA if place == last else Phase.RCPT
