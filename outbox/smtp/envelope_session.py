"""The commands of one email's envelope, up to DATA's 354: `EnvelopeSession`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..domain.delivery.reply_table import Event, is_out_of_step, judge
from ..domain.delivery.transaction import Phase, Verdict
from ..domain.header.address import domain_of
from .command import CommandError, command, envelope_lines, lacking
from .reply_reader import NoReply
from .session import Session
from .session_errors import Unwanted
from .session_limits import Limits, offered

if TYPE_CHECKING:
    from ..domain.delivery.transaction import Envelope, Transaction
    from .transaction_result import RecipientRefusals

GROUP = 50
"""The most commands in flight: both sides' buffers hold them, so neither waits for the other."""

MOST_ERRORS = 8
"""Refusals over one session, with no email taken in between, after which it names nobody else.
Postfix delays each reply after ten of them, and ends the session after twenty
(`smtpd_soft_error_limit`, `smtpd_hard_error_limit`); others do the like. A refused recipient counts
twice where the commands leave as a group: then DATA is refused, too."""

MOMENT = 0.001
"""Seconds for which a connection is taken to be as the last reply left it."""

DATA = command("DATA")
_LONE_DOT = b".\r\n"
_START_MAIL = 354


class EnvelopeSession(Session):
    """A session that gives the server an email's envelope.

    Where the server offers PIPELINING (RFC 2920), the commands leave as a group. Those of the
    `announced` email have left already, behind the content of the email before it.
    """

    announced: Envelope | None = None
    """The email whose commands are in flight: no other email can come next on this connection."""

    limits: Limits | None = None
    """What the server's EHLO says of the session's limits; None where it says nothing."""

    errors = 0
    """How many refusals came since the session last took an email, of recipients and of emails."""

    _had_rested = False  # before MAIL's reply came
    _domains: frozenset[str] = frozenset()  # of the session's recipients; kept where it is limited

    def open(self) -> Transaction | None:
        """Make the session ready for emails, as `Session.open` does; note what it takes."""
        halt = super().open()
        self.limits = offered(self.esmtp_features)
        return halt

    def has_room(self, envelope: Envelope) -> bool:
        """Return whether this session takes as many of the recipients at once as a new one."""
        return self.limits is None or self._room(envelope) >= self.limits.room(envelope.recipients)

    def _room(self, envelope: Envelope) -> int:
        """Return how many of the recipients, from the first on, the next transaction names."""
        if self.limits is None:
            return len(envelope.recipients)
        return self.limits.room(envelope.recipients, self._domains)

    def _name(self, envelope: Envelope) -> int:
        """Return `_room`, and note that these recipients are named in this session."""
        if self.limits is None:  # as with almost every server
            return len(envelope.recipients)
        room = self._room(envelope)
        self._domains |= frozenset(map(domain_of, envelope.recipients[:room]))
        return room

    def was_left(self) -> bool:
        """Whether the server has ended the session since its last reply, or said what nobody asked.

        Its last words are no reply to the next MAIL, whatever their code: 451 4.4.2 from Amazon SES
        and Gmail, 451 4.7.0 from Exchange. This does not wait. No email may be announced.
        """
        if self._replies is None or self._clock() - self._heard_at <= MOMENT:
            return False
        return self._replies.has_ended() or self._ahead

    def _start(self, envelope: Envelope, size: int, refusals: RecipientRefusals) -> None:
        """Send MAIL, RCPT and DATA, in groups where the server allows it, up to DATA's 354."""
        last = refusals.room + 1  # the place of DATA, behind MAIL and the recipients
        if self.announced is envelope or self.announced == envelope:
            self.announced = None
            if self._may_be_gone():
                raise NoReply(Event.CLOSED, "the server ended the connection between two emails")
            if not self._agreed(last):
                self._replies_to(range(last + 1), last, refusals)
            return
        if self.announced is not None:
            self.close()  # the server waits for another email's content
        lines = [*self._lines(envelope, size)[:last], DATA]
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
            elif self.errors >= MOST_ERRORS and refusals.accepted and start < last:
                refusals.name_no_more(start - 1)  # a content that is taken ends the server's count
                start = last

    def _may_be_gone(self) -> bool:
        """Whether content would be in doubt: the server ended the connection, or it has rested.

        Where the server awaits a content, nothing can be asked.
        """
        if self._clock() - self._heard_at <= MOMENT:
            return False
        return self.has_rested or (self._replies is not None and self._replies.has_ended())

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
                code, text = self.getreply() if place else self._mail_reply()
            except NoReply as none:
                if refused is None and not refusals.everybody:
                    if none.event is Event.CLOSED:
                        self._raise_halted(refusals)
                    raise
                break  # the connection is closed, and the refusal stands
            codes.append(code)
            self.errors += code >= 400
            if self.phase is Phase.DATA:
                self._asked_for_content(code, text, wanted=not (refused or refusals.everybody))
            elif code // 100 == 2:
                refusals.accepted += self.phase is Phase.RCPT
            elif refused is None:
                refused = self._refused(place, code, text, refusals)
        if refused is not None:
            self.phase = Phase.MAIL
            self._expect_own_refusal(codes)
            raise refused

    def _mail_reply(self) -> tuple[int, bytes]:
        """Read MAIL's reply. Where none comes over a session that has rested, it counts as closed.

        It is waited for as long as for a new session, which then has the whole time of a command.
        """
        self._had_rested = self.has_rested
        if not self._had_rested:
            return self.getreply()
        self._patience = min(self._server.connect_timeout, self._server.command_timeout)
        try:
            return self.getreply()
        except NoReply as none:
            if none.event not in (Event.TIMEOUT, Event.GIVEN_UP):
                raise
            raise NoReply(Event.CLOSED, "no reply over a session that had rested") from none
        finally:
            self._patience = self._server.command_timeout

    def _expect_own_refusal(self, codes: list[int]) -> None:
        """Raise NoReply if MAIL's refusal, with the replies behind it, is no reply to MAIL."""
        if is_out_of_step(codes):
            raise NoReply(Event.GARBAGE, "a reply too many: MAIL refused, a recipient taken")
        if self._had_rested:  # MAIL may have crossed the session's last words: a round trip tells
            self._reset()
            if self.sock is None:
                raise NoReply(Event.CLOSED, "the server ended a session that had rested")

    def _refused(
        self, place: int, code: int, text: bytes, refusals: RecipientRefusals
    ) -> Unwanted | None:
        """Return the refusal of the whole email, or note that of one recipient."""
        refusal = Unwanted(code, text)
        judgement = judge(self.phase, refusal.reply, accepted=refusals.accepted > 0)
        if self.phase is Phase.RCPT and refusals.add(place - 1, refusal, judgement):
            return None
        # A suspicion may be a rested session's last words: what comes behind it tells. A 421 at
        # MAIL gets a new session anyway.
        is_suspicion = judgement.verdict is Verdict.SUSPECT and code != 421
        may_be_last_words = is_suspicion and self._had_rested and self.phase is Phase.MAIL
        if judgement.renew and not may_be_last_words:
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


def _phase(place: int, last: int) -> Phase:
    if place == 0:
        return Phase.MAIL
    return Phase.DATA if place == last else Phase.RCPT
