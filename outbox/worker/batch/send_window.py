"""Sends an open window's emails, over one server after the other, until each has a result.

An email can come to be in doubt only here. Its content leaves only after its window's opening has
committed, and the next window opens in the transaction that records this one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...domain.delivery.blame import Traits
from ...domain.delivery.outcome import put_off
from ...domain.delivery.status import Status
from ...domain.delivery.transaction import NOBODY, Transaction, Verdict
from ...smtp.no_reply_yet import NoReplyYet
from ...store.encryption.cipher import MissingKey
from ...store.records import ClaimedEmail, EmailResult
from ..process.runtime import Runtime
from ..process.shutdown import is_nobodys_fault
from .batch_results import Results
from .content_reader import NotHeld
from .result_factory import Outgoing, ResultFactory, Unjudged
from .send_email import EmailSender
from .server_choice import ServerChoice
from .throttle import Throttle
from .todo import Todo
from .watch.diagnosis import ASIDE, JUDGED, OPEN, Diagnosis, Kind
from .watch.server_watch import Watch
from .window_span import window_span


class Window:
    """Sends the emails of one window and hands their results over."""

    def __init__(
        self,
        runtime: Runtime,
        choice: ServerChoice,
        sender: EmailSender,
        throttle: Throttle,
        factory: ResultFactory,
        results: Results,
    ) -> None:
        """`factory` makes the results of emails, and `results` takes them."""
        self._clock = runtime.clock
        self._seconds = runtime.settings.window_seconds
        self._choice = choice
        self._sender = sender
        self._throttle = throttle
        self._factory = factory
        self._results = results
        self._opened_at = self._clock()
        self.todo = Todo(runtime.clock)  # to be given to this server
        self._aside: list[Outgoing] = []  # this server neither took nor judged them
        self._parked: list[Outgoing] = []  # the next server has no permits for them now
        self._done: dict[int, Outgoing] = {}  # judged for themselves, with no rest; by email
        self._late: list[Outgoing] = []  # their turn did not come before the window's time was up
        self._unnoted: tuple[Outgoing, Transaction] | None = None  # what is known, not yet weighed
        self._awaited: tuple[Outgoing, NoReplyYet] | None = None  # its reply may yet come
        self.has_crashed = False  # an error of ours ended it while an email was under way
        self._left: Sequence[ClaimedEmail] = ()  # the batch's emails behind this window
        self._announced: ClaimedEmail | None = None  # the next window's first, where it is known

    def send(
        self, emails: Sequence[ClaimedEmail], left: Sequence[ClaimedEmail], *, announces: bool
    ) -> list[ClaimedEmail]:
        """Send the emails; return those whose turn did not come before the window's time was up.

        `left` are the emails of the batch behind this window. With `announces` the envelope of the
        first of them may leave before its window is open: that brings no email into doubt.
        """
        now, self._left = self._factory.now(), left
        self._announced = left[0] if announces and left else None
        self.todo.left = [Outgoing(email=email, started_at=now) for email in emails]
        span = window_span(emails, self._choice, self._results)
        try:
            span.begin()
            self._send_all()
        except BaseException as error:
            self._end_by(error)
            span.end(error)
            raise
        span.end()
        return [out.email for out in self._late]

    def _send_all(self) -> None:
        tried: set[str] = set()
        while self.todo.left:
            self._give_to_this_server()
            tried.add(self._choice.server.name)
            if self._late or self._awaited or not self.todo.left or not self._sender.holds():
                break
            if not self._move_on(tried):
                break
        for out in (*self.todo.left, *self._parked):
            self._add_unjudged(out)

    @property
    def is_awaited(self) -> bool:
        """Whether a reply is to be waited for when the batch has ended: see `conclude`."""
        return self._awaited is not None

    def conclude(self) -> Watch:
        """Wait for that reply, and add its result; return what is to settle when it is recorded."""
        assert self._awaited is not None  # noqa: S101  (`is_awaited` was asked)
        (out, later), self._awaited = self._awaited, None
        self.todo.left, self._parked, self._left = [], [], ()  # their results are known
        transaction = later.wait()
        self._unnoted = out, transaction
        self._results.after_record.append(later.end)
        try:
            self._choice.watch_anew()
            diagnosis, rest = self._weigh(out, transaction)
            if diagnosis.is_of_server:
                self._leave_server(diagnosis)
            for passed in self._aside:
                self._add_unjudged(passed)
            if rest is not None:
                self._results.add(self._factory.give_back(rest))
        except BaseException as error:
            self._end_by(error)
            raise
        return self._choice.watch

    def relieve(self) -> tuple[ClaimedEmail, list[EmailResult]] | None:
        """Take out the emails behind a slow one; return it and their results, to be recorded.

        The heartbeat's thread calls it, while this one waits for a server. Another batch may send
        those emails now. It returns None where there is nothing to be relieved.
        """
        if (relieved := self.todo.relieve()) is None:
            return None
        slow, waiting = relieved
        return slow, [self._factory.give_back(out) for out in waiting]

    def _give_to_this_server(self) -> None:
        """Give this server the emails of `todo`, and leave there those that it did not take."""
        holds = self._sender.holds()
        while holds and (out := self._next()) is not None:
            diagnosis = self._try(out)
            if diagnosis is JUDGED:  # the lease is asked before each content: not here as well
                continue
            if diagnosis.is_of_server:
                self._leave_server(diagnosis)
                self._choice.connection.close()  # it may be the session that is refused
                break
            holds = self._sender.holds()
        for out in self._late:
            self._results.add(self._factory.give_back(out, Status.CLAIMED))
        self.todo.put_before(self._aside)
        self._aside = []

    def _next(self) -> Outgoing | None:
        """Take the next email; return None where none is left, or the time is up."""
        if self._done and self._clock() - self._opened_at > self._seconds:
            self._late = self.todo.empty()
            return None
        return self.todo.take(self._pick if self._choice.watch.is_choosy else None)

    def _pick(self, left: Sequence[Outgoing]) -> int:
        return self._choice.watch.pick([out.email.traits for out in left])

    def _try(self, out: Outgoing) -> Diagnosis:
        """Send one email; note what the server's replies say of the email and of the server.

        An email that may not leave any more is given back, and says nothing of the server: ASIDE.
        """
        if self._sender.has_expired(out.email):
            return self._end_with(self._factory.give_back(out), ASIDE)
        out.started_at = self._factory.now()
        while True:  # more than once where the recipients do not fit one transaction
            self.todo.current = out
            left = self.todo.left  # the heartbeat's thread may put another list in its place
            following = left[0].email if left else self._announced
            try:
                transaction = self._sender.send(
                    out.email, self._choice.connection, following, self.todo.at_server
                )
            except NotHeld:
                return self._end_with(self._factory.give_back(out), ASIDE)
            except MissingKey as lacking:
                return self._end_with(self._factory.unreadable(out, lacking.key_id), JUDGED)
            except NoReplyYet as later:
                self.todo.current, self._awaited = None, (out, later)
                self._choice.watch.note_unanswered(out.email)
                return ASIDE
            self.todo.current = None
            if transaction is None:
                damaged = self._factory.damaged(out, self._choice.server.name)
                return self._end_with(damaged, JUDGED)
            if transaction.verdict is Verdict.UNSENT and not self._sender.may_send(out.email):
                return self._end_with(self._factory.give_back(out), ASIDE)
            diagnosis, rest = self._weigh(out, transaction)
            if rest is None:
                return diagnosis
            out = rest

    def _end_with(self, result: EmailResult, diagnosis: Diagnosis) -> Diagnosis:
        """Add the result of the email under way, of which no server's reply tells."""
        self.todo.current = None
        self._results.add(result)
        return diagnosis

    def _weigh(self, out: Outgoing, transaction: Transaction) -> tuple[Diagnosis, Outgoing | None]:
        """Return what a transaction tells, and the email's rest, to recipients that are left."""
        self._unnoted = out, transaction
        diagnosis = self._choice.watch.note(out.email, transaction, self._untried)
        self._unnoted = None
        if diagnosis is not JUDGED and not diagnosis.is_final:
            self._put_aside(out, transaction, diagnosis)
            return diagnosis, None
        return diagnosis, self._judge(out, transaction, diagnosis)

    def _untried(self) -> list[Traits]:
        return [email.traits for email in (*(out.email for out in self.todo.left), *self._left)]

    def _judge(
        self, out: Outgoing, transaction: Transaction, diagnosis: Diagnosis
    ) -> Outgoing | None:
        """Note an email's own result; return its rest, to recipients that are left, or None."""
        if self._aside and diagnosis.kind is Kind.JUDGED:
            self._blame(out.email.id)
        transaction = put_off(transaction) if diagnosis is OPEN else transaction
        result, rest = self._factory.judged(out, transaction, self._choice.server.name)
        self._results.add(result)
        if rest is None:
            self._done[out.email.id] = out
            return None
        whole = self._factory.interrupted(out, transaction, self._choice.server.name)
        return rest if self._results.record_part(self._factory.give_back(rest), whole) else None

    def _put_aside(self, out: Outgoing, transaction: Transaction, diagnosis: Diagnosis) -> None:
        """Set an email aside that the server neither took nor judged."""
        is_acquitted = bool(diagnosis.acquitted)
        out.set_aside(transaction, self._choice.server.name, is_acquitted=is_acquitted)
        self._aside.append(out)
        if diagnosis.witness is not None:
            self._blame(diagnosis.witness)

    def _blame(self, judged: int) -> None:
        """Note that the server judged this email, and none of those that were set aside."""
        for suspect in self._aside:
            suspect.blamed_by |= {judged}

    def _leave_server(self, diagnosis: Diagnosis) -> None:
        """Give this server no more emails: it is to blame, or the rest is like the suspects."""
        gone = self._results.withdraw(diagnosis.acquitted & self._done.keys())
        acquitted = [self._done.pop(ours) for ours in list(self._done) if ours in gone]
        for out in acquitted:
            out.unjudged = Unjudged.BEHIND
        for out in self._aside:
            out.blamed_by -= diagnosis.acquitted  # they were not judged for themselves either
            if out.suspected is not None and out.suspected.verdict is Verdict.UNSENT:
                out.unjudged = Unjudged.BEHIND  # the server drops every email: no crash is charged
        if diagnosis.kind is Kind.CLASS:
            for out in self.todo.left:
                if out.unjudged is Unjudged.UNTRIED:
                    out.unjudged = Unjudged.PASSED_OVER
        self._aside = [*acquitted, *self._aside]
        self._choice.drop()

    def _move_on(self, tried: set[str]) -> bool:
        """Take the next server and its permits; return False where no other has any now."""
        while self.todo.left and self._choice.take_next(tried):
            emails = [out.email for out in self.todo.left]
            if permitted := self._throttle.permit_moved(emails, self._choice.buckets):
                self._parked += self.todo.left[permitted:]
                del self.todo.left[permitted:]
                return True
            tried.add(self._choice.server.name)
        return False

    def _add_unjudged(self, out: Outgoing) -> None:
        """Add the result of an email that no server took or judged for itself."""
        suspected = out.suspected if out.unjudged is Unjudged.SUSPECT else None
        if suspected is not None and suspected.verdict is Verdict.LACKING:
            self._choice.watch_of(out.server).alert_lacking(out.email, suspected)
        self._results.add(self._factory.unjudged(out))

    def _end_by(self, error: BaseException) -> None:
        """Give back the emails that surely never left, so that they do not become unknown.

        The email under way is charged a crash if it may have caused the error. If the server has
        judged it, this result stands.
        """
        unsent = [*self.todo.left, *self._aside, *self._parked]
        out, transaction = self._unnoted or (self.todo.current, None)
        self.has_crashed = out is not None and not is_nobodys_fault(error)
        if out is not None:
            server = self._choice.server.name
            if transaction is not None and transaction.verdict not in NOBODY:
                self._results.add(self._factory.interrupted(out, transaction, server))
            elif transaction is None and self._sender.touched == out.email.id:
                pass  # it may have left: the rescue judges it
            elif self.has_crashed:
                self._results.add(self._factory.crashed(out, error, server))
            else:
                unsent.append(out)
        for one in unsent:
            self._results.add(self._factory.give_back(one))
