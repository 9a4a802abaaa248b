"""Erases one person, in short transactions that pass over locked emails."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ....domain.config.search_terms import Term
from ....domain.delivery.status import FINISHED, Status
from ....domain.header.address import check_address, suppression_key
from ....store.bounded_waits import run_bounded
from ....store.connection.database import Database
from ....store.connection.row_locks import on_free
from ....store.control import suppression
from ....store.control.barring import erased
from ....store.erasure.audit import forget_in_audit, forget_own_tags
from ....store.erasure.erase import erase_finished, waiting_alone
from ....store.erasure.find import emails_of, pages
from ....store.erasure.servers import forget_reasons, forget_replies
from ....store.jobs.forget import forget_person
from ....store.queries import reports
from ....store.transitions.cancel import withdraw_ids
from ..audit import Act, act_of

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime


class Left(StrEnum):
    """Why an email still has the address."""

    SENDING = "it is being sent"
    UNKNOWN = "it may have arrived: resolve it first"
    OTHERS = "it waits for other recipients"
    NEEDED = "another email that is left needs its content"
    LOCKED = "another transaction holds it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """What `erase` has done. Call it again for the emails that are left."""

    emails: int  # that are erased now
    cancelled: int  # how many of these were not sent yet
    left: dict[int, Left]  # by id
    was_suppressed: bool  # the suppression list had the address

    @property
    def is_whole(self) -> bool:
        """Whether no email has the address any more."""
        return not self.left


def erase(runtime: Runtime, address: Any, scan: bool, by: Any) -> Erasure:
    """Erase a person; a tombstone comes first, so that nothing new leaves meanwhile."""
    whom, database = check_address(address, "address"), runtime.database
    scan = scan or Term.RECIPIENT not in runtime.settings.indexed
    act = act_of(by, "erase")
    was_suppressed = run_bounded(database, lambda c: _bar(c, database, whom, act))
    run_bounded(database, lambda c: forget_person(c, database, whom))
    tally = _Tally()
    for ids in emails_of(database, whom, scan=scan):
        tally.add(run_bounded(database, partial(_erase, database=database, ids=ids, address=whom)))
    for ids in pages(tally.needing):  # what they waited for may be over now
        tally.add(run_bounded(database, partial(_erase, database=database, ids=ids, address=whom)))
    run_bounded(database, lambda c: forget_in_audit(c, database, whom))
    after: str | None = ""
    while after is not None:
        page = partial(forget_reasons, database=database, address=whom, after=after)
        after = run_bounded(database, page)
    run_bounded(database, lambda c: forget_replies(c, database, whom))  # what came meanwhile
    if act is not None:
        result = f"{len(tally.gone)} erased, {len(tally.left)} left"
        run_bounded(database, lambda c: act.note(c, database, result))
    return Erasure(
        emails=len(tally.gone),
        cancelled=len(tally.gone & tally.withdrawn),
        left=dict(sorted(tally.left.items())),
        was_suppressed=was_suppressed,
    )


def is_erased(runtime: Runtime, address: Any) -> bool:
    """Return whether there is a tombstone of the person, so that no email goes there."""
    key, database = suppression_key(check_address(address, "address")), runtime.database
    return key in database.read(lambda c: erased.erased_among(c, database, [key]))


def readmit(runtime: Runtime, address: Any, by: Any) -> bool:
    """Remove a person's tombstone; False where there was none."""
    whom, database = check_address(address, "address"), runtime.database
    act = act_of(by, "readmit")

    def remove(connection: Connection) -> bool:
        done = erased.readmit(connection, database, whom)
        if act is not None:
            act.note(connection, database, "readmitted" if done else "was not erased")
        return done

    return run_bounded(database, remove)


@dataclass(kw_only=True)
class _Tally:
    """What was done so far, or in one step."""

    gone: set[int] = field(default_factory=set)
    withdrawn: set[int] = field(default_factory=set)  # not all of these could be erased
    left: dict[int, Left] = field(default_factory=dict)

    def add(self, step: _Tally) -> None:
        self.gone |= step.gone
        self.withdrawn |= step.withdrawn
        self.left |= step.left
        for email_id in step.gone:
            self.left.pop(email_id, None)

    @property
    def needing(self) -> list[int]:
        """The emails that were left for another one's sake."""
        return [email_id for email_id, why in self.left.items() if why is Left.NEEDED]


def _bar(connection: Connection, database: Database, address: str, act: Act | None) -> bool:
    """Leave a tombstone in the place of the address; return whether the address was suppressed.

    With it comes the entry of the audit: whatever ends the erasure early, it was begun.
    """
    if act is not None:
        act.note(connection, database, "begun")
    erased.bury(connection, database, address)
    forget_replies(connection, database, address)
    return suppression.allow(connection, database, address)


def _erase(connection: Connection, database: Database, ids: list[int], address: str) -> _Tally:
    def work(connection: Connection, database: Database, free: list[int]) -> _Tally:
        waiting = waiting_alone(connection, database, free)
        if waiting:
            withdraw_ids(connection, database, waiting)
        forget_own_tags(connection, database, free, address)
        gone = erase_finished(connection, database, free, address)
        statuses = reports.statuses(connection, database, set(free) - gone)
        left = {email_id: _reason(status) for email_id, status in statuses.items()}
        return _Tally(gone=set(gone), withdrawn=set(waiting), left=left)

    done, locked = on_free(connection, database, work, ids)
    done.left |= dict.fromkeys(locked, Left.LOCKED)
    return done


def _reason(status: Status) -> Left:
    match status:
        case Status.SENDING:
            return Left.SENDING
        case Status.UNKNOWN:
            return Left.UNKNOWN
    return Left.NEEDED if status in FINISHED else Left.OTHERS
