"""What the table should be, in plain Python: an email, a lease, and what each step does to them.

Written from the design, and sharing with the library the names of the statuses only. Times are
seconds on a clock that stands still until it is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from outbox.domain.delivery.status import Status

LEASE = 30.0
MAX_ATTEMPTS = 4
MAX_CRASHES = 3
MAX_UNKNOWN = 3
ALONE_FROM = 2
STEPS = (30, 120, 600, 1800)
JITTER = 0.5
UNSENT = {Status.FAILED, Status.CANCELLED, Status.EXPIRED, Status.SUPPRESSED}
OVER = UNSENT | {Status.SENT}
DOUBTFUL = {Status.PENDING, Status.UNKNOWN}
OPEN = {Status.CLAIMED, Status.SENDING}


@dataclass(kw_only=True)
class Mail:
    """One row of `outbox_email`, and what nobody can know: how many copies may be out."""

    id: int
    first_due: float
    due: float | None
    expires: float | None = None
    key: str | None = None
    tag: str | None = None
    hold: bool = False
    status: Status = Status.PENDING
    token: UUID | None = None
    unknown_token: UUID | None = None
    attempts: int = 0
    crashes: int = 0
    unknown_count: int = 0
    finished: float | None = None
    copies: int = 0
    declared: int = 0
    retries: int = 0

    def row(self) -> tuple[object, ...]:
        """Return what the table must say."""
        return (
            self.status, self.token, self.unknown_token,
            self.attempts, self.crashes, self.unknown_count,
            self.due is not None, self.finished is not None,
            self.status in {Status.FAILED, Status.UNKNOWN},
        )  # fmt: skip


@dataclass(kw_only=True)
class Lease:
    """One row of `outbox_lease`."""

    expires: float
    started: bool = False
    suspected: float | None = None


@dataclass(kw_only=True)
class Model:
    """The committed table."""

    now: float = 0.0
    emails: dict[int, Mail] = field(default_factory=dict)
    leases: dict[UUID, Lease] = field(default_factory=dict)
    paused: bool = False

    def due(self) -> set[int]:
        return {
            mail.id for mail in self.emails.values() if mail.due is not None and self.past(mail.due)
        }

    def past(self, moment: float | None) -> bool:
        return moment is not None and moment <= self.now

    def held(self, token: UUID) -> list[Mail]:
        return [mail for mail in self.emails.values() if mail.token == token]

    def claimable(self, order: Iterable[int], limit: int) -> list[set[int]]:
        """Return what a claim takes of the emails in this order: a batch, and an email alone.

        The batch is of the first `limit` emails. If less than half of it is found there, because
        the others go alone, it is filled with those behind them.
        """
        due = [self.emails[email_id] for email_id in order]
        first = due[:limit]
        lone = [mail.id for mail in first if mail.crashes >= ALONE_FROM][:1]
        batch = [mail.id for mail in first if mail.crashes < ALONE_FROM]
        if lone and 2 * len(batch) < limit:
            batch = [mail.id for mail in due if mail.crashes < ALONE_FROM][:limit]
        return [set(ids) for ids in (batch, lone) if ids]

    def claim(self, token: UUID, ids: Iterable[int]) -> None:
        self.leases[token] = Lease(expires=self.now + LEASE)
        for email_id in ids:
            mail = self.emails[email_id]
            mail.status, mail.token, mail.due, mail.unknown_token = (
                Status.CLAIMED,
                token,
                None,
                None,
            )

    def start(self, token: UUID) -> bool:
        lease = self.leases.get(token)
        if lease is None or lease.started:
            return False
        self.leases[token] = Lease(expires=self.now + LEASE, started=True)
        return True

    def renew(self, token: UUID) -> bool:
        if token not in self.leases:
            return False
        lease = self.leases[token]
        lease.expires, lease.suspected = self.now + LEASE, None
        return True

    def open(self, token: UUID, ids: Iterable[int]) -> set[int]:
        emails = [m for i in ids if (m := self.emails.get(i)) and m.token == token]
        opened = [m for m in emails if m.status in OPEN and not self.past(m.expires)]
        for mail in opened:
            mail.status = Status.SENDING
        return {mail.id for mail in opened}

    def record(self, token: UUID, email_id: int, verdict: str) -> None:
        mail = self.emails.get(email_id)
        if mail is None:
            return
        if mail.token == token and mail.status is Status.SENDING:
            _VERDICTS[verdict](self, mail)
        elif verdict == "sent" and mail.unknown_token == token and mail.status in DOUBTFUL:
            self._end(mail, Status.SENT)

    def give_back(self, token: UUID) -> None:
        for mail in self.held(token):
            if mail.status is Status.CLAIMED and self.past(mail.expires):
                self._end(mail, Status.EXPIRED)
            else:
                self._wait(mail, mail.first_due)

    def finish(self, token: UUID) -> None:
        self.give_back(token)
        self.leases.pop(token, None)

    def rescue(self) -> int:
        """Judge what ran out; return how many leases still had an email."""
        for lease in self.leases.values():
            if self.past(lease.expires) and lease.started and lease.suspected is None:
                lease.suspected = self.now
        judged = [token for token, lease in self.leases.items() if self._is_rescuable(lease)]
        lost = sum(any(self.held(token)) for token in judged)
        for token in judged:
            if self.leases.pop(token).started:
                for mail in self.held(token):
                    self._lost_worker(mail, token)
            self.give_back(token)
        return lost

    def _is_rescuable(self, lease: Lease) -> bool:
        if not self.past(lease.expires):
            return False
        return not lease.started or (
            lease.suspected is not None and self.past(lease.suspected + LEASE)
        )

    def _lost_worker(self, mail: Mail, token: UUID) -> None:
        mail.crashes += 1
        worn = mail.crashes >= MAX_CRASHES
        if mail.status is Status.SENDING:
            self._doubt(mail, final=worn)
            mail.unknown_token = token
        elif worn:
            self._end(mail, Status.FAILED)

    def _doubt(self, mail: Mail, *, final: bool = False) -> None:
        mail.attempts, mail.unknown_count, mail.declared = (
            mail.attempts + 1,
            mail.unknown_count + 1,
            mail.declared + 1,
        )
        final = (
            final or mail.hold or mail.unknown_count >= MAX_UNKNOWN or mail.attempts >= MAX_ATTEMPTS
        )
        if final:
            self._end(mail, Status.UNKNOWN)
        else:
            self._back_off(mail)

    def _put_off(self, mail: Mail) -> None:
        mail.attempts += 1
        if mail.attempts >= MAX_ATTEMPTS:
            self._end(mail, Status.FAILED)
        else:
            self._back_off(mail)

    def _refuse(self, mail: Mail) -> None:
        mail.attempts += 1
        self._end(mail, Status.FAILED)

    def _take(self, mail: Mail) -> None:
        mail.attempts += 1
        self._end(mail, Status.SENT)

    def _drop(self, mail: Mail) -> None:
        mail.crashes += 1
        if mail.crashes >= MAX_CRASHES:
            self._end(mail, Status.FAILED)
        else:
            self._wait(mail, self.now + 30.0 * mail.crashes)

    def _back_off(self, mail: Mail) -> None:
        self._wait(mail, self.now + JITTER * STEPS[mail.attempts - 1])

    def _wait(self, mail: Mail, due: float) -> None:
        mail.status, mail.token, mail.due = Status.PENDING, None, due

    def _end(self, mail: Mail, status: Status) -> None:
        """No email in doubt ends as one that surely was not sent."""
        if status is Status.SENT:
            mail.unknown_count, mail.unknown_token = 0, None
        mail.status = Status.UNKNOWN if mail.unknown_count else status
        mail.token, mail.due, mail.finished = None, None, self.now

    def expire(self) -> None:
        for mail in self.emails.values():
            if mail.due is not None and self.past(mail.expires):
                self._end(mail, Status.EXPIRED)

    def cancel(self, which: Callable[[Mail], bool]) -> int:
        waiting = [m for m in self.emails.values() if m.status in (Status.PENDING, Status.CLAIMED)]
        withdrawn = [mail for mail in waiting if which(mail)]
        for mail in withdrawn:
            self._end(mail, Status.CANCELLED)
        return sum(mail.status is Status.CANCELLED for mail in withdrawn)

    def retry(self, email_id: int) -> int:
        mail = self.emails[email_id]
        if mail.status not in (Status.FAILED, Status.UNKNOWN) or self.past(mail.expires):
            return 0
        mail.attempts = mail.crashes = 0
        mail.unknown_count = min(mail.unknown_count, 1)
        mail.retries += 1
        mail.unknown_token = mail.finished = None
        self._wait(mail, self.now)
        return 1

    def resolve(self, email_id: int, outcome: Status) -> int:
        mail = self.emails[email_id]
        if mail.status is not Status.UNKNOWN:
            return 0
        mail.unknown_count, mail.unknown_token, mail.copies = 0, None, 0
        self._end(mail, outcome)
        return 1

    def purge(self, older_than: float) -> int:
        over = [
            mail.id
            for mail in self.emails.values()
            if mail.status in OVER
            and mail.finished is not None
            and self.past(mail.finished + older_than)
        ]
        for email_id in over:
            del self.emails[email_id]
        return len(over)

    def moments(self) -> list[float]:
        """Return every moment at which something changes by itself."""
        ends = [lease.expires for lease in self.leases.values()]
        ends += [
            lease.suspected + LEASE for lease in self.leases.values() if lease.suspected is not None
        ]
        for mail in self.emails.values():
            ends += [moment for moment in (mail.due, mail.expires) if moment is not None]
        return ends


_VERDICTS: dict[str, Callable[[Model, Mail], None]] = {
    "sent": Model._take,
    "retry": Model._put_off,
    "fail": Model._refuse,
    "unknown": Model._doubt,
    "unsent": Model._drop,
    "halt": lambda model, mail: model._wait(mail, mail.first_due),
}
