"""What a test asks of the outbox of its app."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Self, Unpack

from flask import Flask

from ..domain.config.enqueue_options import Reading
from ..domain.counted import counted
from ..domain.errors import ConfigurationError
from ..flask_ext.app.state import State
from ..flask_ext.dropin.entry import MailEntry
from ..flask_ext.session.source import AnySession
from ..store.queries import whole_emails
from . import misses, sending, views
from .enqueued import Delivery, EnqueuedEmail
from .frozen_clock import FrozenClock, check_moment
from .replies import Replies
from .wanted import Filters, Wanted

_UNCOMMITTED = "drain() sends what is committed, and {} not, in the current session: commit first"
_TAKEN_BACK = (
    "drain() sends what is committed, and {} in a transaction that a fixture of this test takes"
    " back: let this test commit, on a database of its own"
)


class OutboxTester:
    """The emails that an app enqueues during a test, and an SMTP server that follows a script.

    It sees the emails that are enqueued after it was made, those of the current session's open
    transaction included. Until `close`, or the end of its `with` block, the app enqueues what goes
    through `OutboxMail` under `TESTING` too, and no task and no command of the app sends by SMTP
    unless it did before. Only `drain` sends, and only to a server of its own on loopback.
    """

    def __init__(self, app: Flask) -> None:
        """Raise ConfigurationError if the app has no outbox."""
        state = app.extensions.get("outbox")
        if not isinstance(state, State):
            raise ConfigurationError("the app has no outbox: call outbox.init_app(app, …) first")
        self._state, self._runtime = state, state.runtime
        self._mail = app.extensions.get("mail")
        self._before = (state.runtime.database.offset, state.runtime.sending_is_off)
        self._suppressed = self._mail._suppress if isinstance(self._mail, MailEntry) else None
        self._after, self._discarded = views.newest(state), state.discarded
        self._clock = FrozenClock(state.runtime.database)
        self._host_clock, state.clock = state.clock, self._read_clock
        self.replies = Replies()
        self.deliveries: tuple[Delivery, ...] = ()  # what the server took so far, in its order
        is_off = state.runtime.sending_is_off()
        self._runtime.sending_is_off = lambda: is_off  # it would follow the entry of the mail
        if isinstance(self._mail, MailEntry):
            self._mail.suppress = False

    def emails(
        self, *, session: AnySession | None = None, **filters: Unpack[Filters]
    ) -> tuple[EnqueuedEmail, ...]:
        """Return the emails that match, in the order in which they were enqueued.

        They are the committed ones and those of the current session, or of the one that you give.
        """
        return tuple(filter(Wanted.of(filters).matches, self._all(session)))

    def assert_enqueued(
        self, *, count: int = 1, session: AnySession | None = None, **filters: Unpack[Filters]
    ) -> EnqueuedEmail:
        """Return the email that matches; the first one, if `count` emails are to match.

        Raises AssertionError, with the nearest misses, unless so many match. An email that is
        enqueued twice by mistake does not pass.
        """
        __tracebackhide__ = True
        if not isinstance(count, int) or count < 1:
            raise ValueError("count is a number from 1: use assert_nothing_enqueued")
        wanted, emails = Wanted.of(filters), self._all(session)
        found = list(filter(wanted.matches, emails))
        if not found:
            discarded = self._state.discarded - self._discarded
            raise AssertionError(misses.none_matches(wanted, emails, discarded))
        if len(found) != count:
            raise AssertionError(misses.another_number(wanted, found, count))
        return found[0]

    def assert_nothing_enqueued(
        self, *, session: AnySession | None = None, **filters: Unpack[Filters]
    ) -> None:
        """Raise AssertionError if an email was enqueued, or one that matches.

        Here `to` means whoever gets it, in Cc and Bcc, too. An email whose texts were removed when
        it was sent matches any subject and text.
        """
        __tracebackhide__ = True
        wanted = Wanted.of(filters)
        if found := list(filter(wanted.may_match, self._all(session))):
            raise AssertionError(misses.another_number(wanted, found, 0))

    def drain(self) -> tuple[Delivery, ...]:
        """Sweep and send until no email is due; return what the server took, in its order.

        Every step is the worker's own: claim, window, SMTP, record. The SMTP server is one on
        loopback, which replies as `replies` says.

        Raises ConfigurationError if the current session has emails that are not committed, or has
        written on a database with one writer at a time.
        """
        self._state.refuse_own_write()
        if left := views.look(self._state, None, self._after).uncommitted:
            told = _TAKEN_BACK if views.outer(self._state) else _UNCOMMITTED
            raise ConfigurationError(told.format(counted(left, "email is", "emails are")))
        taken = sending.send(self._runtime, self.replies)
        self.deliveries += taken
        return taken

    def now(self) -> datetime:
        """Return the outbox's time, which is its database's."""
        database = self._runtime.database
        return database.read(lambda connection: whole_emails.now(connection, database))

    def travel(
        self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0
    ) -> None:
        """Move the outbox's time forward, until `close`; Python's own clock stays as it is.

        So an email comes to be due by its backoff or its `send_at`, or expires. Raises ValueError
        for a time that lies behind.
        """
        way = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days).total_seconds()
        if way < 0:
            raise ValueError("the outbox's time goes forward only")
        self._runtime.database.offset += way

    def travel_to(self, moment: datetime) -> None:
        """Move the outbox's time forward to this moment, such as an email's `due_at`.

        `moment` is aware. Raises ValueError for a moment that lies behind, and for a time without a
        zone.
        """
        check_moment(moment)
        way = moment - self.now()
        if self._clock.is_frozen and way >= timedelta():
            self.freeze(moment)
        else:  # Two milliseconds more: SQLite's clock rounds to one.
            self.travel(seconds=way.total_seconds() + 0.002)

    def freeze(self, at: datetime | None = None) -> AbstractContextManager[datetime]:
        """Have the outbox's time stand still, now or `at` an aware moment, be it past or future.

        It stands still in the database's statements, too, whatever they write. `travel` still moves
        it. It goes on after `close`, after `unfreeze`, or at the end of a `with` block. That block
        gets the moment. Python's own clock goes on. Raises ValueError for a time without a zone.
        """
        moment = self.now() if at is None else at
        check_moment(moment)
        # SQLite's clock has milliseconds. Rounded up, what is due at this moment is due.
        moment += timedelta(microseconds=-moment.microsecond % 1000)
        self._clock.freeze(moment)
        return self._until_unfrozen(moment)

    def unfreeze(self) -> None:
        """Have the outbox's time go on."""
        self._clock.thaw()

    def _read_clock(self) -> Reading:
        """Return the time by which an `expires_at` may have passed: the frozen one, or the host's.

        A travel alone does not count: the app computes its times by Python's clock, which stays.
        """
        frozen = self._clock.moment
        if frozen is None:
            return self._host_clock()
        offset = timedelta(seconds=self._runtime.database.offset)
        return Reading(frozen + offset, "the outbox's frozen clock")

    @contextmanager
    def _until_unfrozen(self, moment: datetime) -> Iterator[datetime]:
        try:
            yield moment
        finally:
            self.unfreeze()

    def close(self) -> None:
        """Put the outbox's time and what may be sent back to what they were."""
        self.unfreeze()
        self._runtime.database.offset, self._runtime.sending_is_off = self._before
        self._state.clock = self._host_clock
        if isinstance(self._mail, MailEntry):
            self._mail._suppress = self._suppressed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _all(self, session: AnySession | None) -> list[EnqueuedEmail]:
        return [EnqueuedEmail.of(one) for one in views.look(self._state, session, self._after).all]
