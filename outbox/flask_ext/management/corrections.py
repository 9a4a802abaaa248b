"""The verbs that change emails: in short transactions of their own, past locked emails.

Each transaction first locks the emails that are free (`on_free`), and changes only these. Emails
that another transaction holds are tried once more at the end, after a short wait. Then they are
reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ...domain.delivery.status import Status
from ...domain.errors import InvalidMessage, RowsLocked
from ...domain.jobs.order import Action
from ...store.bounded_waits import SECONDS, bounded_waits, run_bounded
from ...store.connection.database import Database
from ...store.connection.list_parts import parts
from ...store.connection.row_locks import Change, lock_by_id, on_free
from ...store.control import counter
from ...store.jobs.changes import Changed, as_shown, change_of
from ...store.jobs.needing import needing_person
from ...store.queries import reports
from ...store.queries.id_scan import Scan
from ...store.queries.id_steps import Walk, read_step
from ...store.transitions.retry import RETRIED
from .arguments import OnProgress, several_ids, status_of
from .audit import Act, act_of
from .results import Corrections, Reason, Unchanged
from .source import was_sent_again

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime

RESOLVED = (Status.SENT, Status.FAILED)
PATIENCE = SECONDS
"""Seconds for which the last turn waits for a locked email."""


def retry(
    runtime: Runtime,
    ids: Any,
    status: Any,
    progress: OnProgress,
    by: Any,
    since: datetime | None = None,
    seen: int | None = None,
) -> Corrections:
    """Retry failed or unknown emails: those with these ids, or all of a status.

    With `since` only what ended at that moment is retried; with `seen` only what was not sent again
    after that entry of the audit.
    """
    if (ids is None) == (status is None):
        raise InvalidMessage("ids", "give either ids or a status, and not both")
    database = runtime.database
    if status is None:
        found: Iterable[Sequence[int]] = parts(several_ids(ids))
        statuses: Collection[Status] = RETRIED
    else:
        # The scan does not come back to an email that fails again meanwhile: each is retried once.
        chosen = status_of("status", status, RETRIED)
        found, statuses = needing_person(database, chosen, progress), (chosen,)
    act = act_of(by, "retry", status=status)
    work = as_shown(change_of(Action.RETRY, statuses), statuses, since)
    return _correct(database, _unless_copied(work, seen), found, Status.PENDING, act)


def _unless_copied(work: Change[Changed], seen: int | None) -> Change[Changed]:
    """Return the same work, which leaves what was sent again after that entry of the audit."""
    if seen is None:
        return work

    def change(connection: Connection, database: Database, ids: list[int]) -> Changed:
        if ids:  # Who sends it again at the same moment does not lock the email, but this mark.
            counter.put(connection, database, counter.COPIED, ids[0])
        copied = {one for one in ids if was_sent_again(connection, database, one, seen)}
        done = work(connection, database, [one for one in ids if one not in copied])
        return done._replace(sent_again=copied)

    return change


def resolve(
    runtime: Runtime,
    ids: Any,
    outcome: Any,
    by: Any,
    since: datetime | None = None,
    seen: int | None = None,
) -> Corrections:
    """Settle emails in doubt as sent or failed; `since` and `seen` are as in `retry`."""
    chosen = status_of("outcome", outcome, RESOLVED)
    act = act_of(by, f"resolve as {chosen}")
    action, found = Action(f"resolve as {chosen}"), parts(several_ids(ids))
    work = as_shown(change_of(action, action.statuses), action.statuses, since)
    return _correct(runtime.database, _unless_copied(work, seen), found, chosen, act)


def cancel(runtime: Runtime, ids: Any, by: Any) -> Corrections:
    """Withdraw emails that are not sent yet, in a transaction of our own."""
    found, act = parts(several_ids(ids)), act_of(by, "cancel")
    work = change_of(Action.CANCEL, Action.CANCEL.statuses)
    return _correct(runtime.database, work, found, Status.CANCELLED, act)


MOST_CHANGED = 2000
"""After so many changed emails a request leaves the rest to the next one."""
MOST_STEPS = 20
"""After so many steps it does so, too, even if it has found little to change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What a bounded part of a correction has done."""

    changed: int
    locked: int  # emails that another transaction holds
    next: int | None  # the place behind which the next part begins; None: that was the last one
    otherwise: int = 0  # emails that ended, but not as `work` counts it


class BrokenOff(Exception):
    """An error has ended a part early: it is the cause, and `part` has what is committed."""

    def __init__(self, part: Part) -> None:
        super().__init__(f"{part.changed} changed")
        self.part = part


def do_part(
    database: Database,
    work: Change[int],
    walk: Walk,
    after: int | None,
    otherwise: Collection[int] = (),
) -> Part:
    """Change the next emails of a walk, in a time that a request may take.

    The `work` may add to `otherwise` the emails that it has changed and does not count. Raises
    BrokenOff.
    """
    changed, locked, others = 0, 0, 0

    def committed(emails: int) -> None:
        nonlocal changed, others
        changed, others = changed + emails, len(otherwise)

    try:
        for _ in range(MOST_STEPS):
            step = database.read(partial(read_step, database=database, walk=walk, after=after))
            _, left = in_parts(database, work, list(parts(step.ids)), committed)
            locked, after = locked + len(left), step.next
            if after is None or changed + others >= MOST_CHANGED:
                break
    except Exception as error:
        part = Part(changed=changed, locked=locked, next=after, otherwise=others)
        raise BrokenOff(part) from error
    return Part(changed=changed, locked=locked, next=after, otherwise=others)


def in_parts(
    database: Database,
    work: Change[int],
    found: Iterable[Sequence[int]],
    committed: Callable[[int], object] = lambda _: None,
) -> tuple[int, Collection[int]]:
    """Change emails part by part; return how many, and the ids that another transaction holds.

    Each transaction's number is told to `committed` behind its commit.
    """
    total, locked = 0, list[int]()

    def change(part: Sequence[int]) -> list[int]:
        nonlocal total
        changed, left = run_bounded(database, lambda c: on_free(c, database, work, part))
        committed(changed)
        total += changed
        return left

    for part in found:
        locked += change(part)
    return total, [email_id for part in parts(locked) for email_id in change(part)]


def scanned(scan: Scan, progress: OnProgress) -> Iterator[list[int]]:
    """Yield the ids that a scan finds, in parts for one transaction each."""
    done = 0
    progress(done, scan.span)
    for stretch in scan:
        yield from map(list, parts(stretch.ids))
        done += stretch.span
        progress(done, scan.span)


@dataclass(kw_only=True)
class _Tally:
    """The results so far."""

    wanted: Status
    act: Act | None  # for the audit
    changed: dict[int, Status] = field(default_factory=dict)
    unknown: list[int] = field(default_factory=list)
    left: dict[int, Unchanged] = field(default_factory=dict)

    def add(self, done: Changed, unchanged: Iterable[Unchanged]) -> None:
        """Add a part: what was `done`, and what was left as it is."""
        self.changed |= done.statuses
        self.unknown += done.unknown
        self.left |= {one.id: one for one in unchanged}

    def unchanged(self, email_id: int, status: Status | None, done: Changed) -> Unchanged:
        """Return why an email of a part that was `done` was left as it is."""
        if status is None:
            reason = Reason.MISSING
        elif email_id in done.redacted:
            reason = Reason.REDACTED
        elif email_id in done.expired:
            reason = Reason.EXPIRED
        elif email_id in done.ended_anew:
            reason = Reason.ANEW
        elif email_id in done.sent_again:
            reason = Reason.COPIED
        else:
            reason = Reason.ALREADY if status is self.wanted else Reason.STATUS
        return Unchanged(id=email_id, reason=reason, status=status)


def _correct(
    database: Database,
    work: Change[Changed],
    found: Iterable[Sequence[int]],
    wanted: Status,
    act: Act | None,
) -> Corrections:
    """Change the emails that are found, part by part."""
    tally, locked = _Tally(wanted=wanted, act=act), list[int]()
    for part in found:
        locked += _change(database, work, part, tally)
    if locked:
        _wait_for(database, locked[0])
    for part in parts(locked):
        _change(database, work, part, tally, is_last=True)
    return Corrections(
        changed=tally.changed,
        unchanged=tuple(tally.left.values()),
        unknown=tuple(sorted(tally.unknown)),
    )


def _wait_for(database: Database, email_id: int) -> None:
    """Wait until the email is free. Mostly another person's act has locked it, which ends at once.

    Then the last turn tells what that act has done. The wait is bounded, as each wait for a row is.
    """

    def wait(connection: Connection) -> None:
        with bounded_waits(connection, database, PATIENCE):
            lock_by_id(connection, database, database.tables.email.c.id == email_id)

    with suppress(RowsLocked):
        database.run(wait)


def _change(
    database: Database,
    work: Change[Changed],
    part: Sequence[int],
    tally: _Tally,
    *,
    is_last: bool = False,
) -> list[int]:
    """Change a part in one transaction; return its ids that another transaction holds.

    In the last turn these are unchanged, and are told so.
    """

    def change(connection: Connection) -> tuple[Changed, list[Unchanged], list[int]]:
        done, locked = on_free(connection, database, work, part)
        left = [id_ for id_ in part if id_ not in done.statuses and id_ not in locked]
        others = reports.statuses(connection, database, left) if left else {}
        unchanged = [tally.unchanged(i, others.get(i), done) for i in left]
        if is_last:
            unchanged += [Unchanged(id=id_, reason=Reason.LOCKED) for id_ in locked]
        if tally.act is not None:
            tally.act.note_emails(connection, database, done.statuses, unchanged)
        return done, unchanged, locked

    done, unchanged, locked = run_bounded(database, change)
    tally.add(done, unchanged)
    return locked
