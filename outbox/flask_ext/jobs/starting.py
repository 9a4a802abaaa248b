"""The dry run of a job, and its start, stop and resumption."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from ...domain.counted import counted
from ...domain.errors import InvalidMessage
from ...domain.jobs.order import Action, JobState, Order, texts_of
from ...domain.search.place import Place, read_place
from ...store.bounded_waits import run_bounded
from ...store.connection.database import Database
from ...store.control import counter
from ...store.jobs import row
from ...store.jobs.walk import Count, Walk, beginning
from ...store.report_records import Job
from ..management.arguments import limit_of, one_id
from ..management.audit import Act, act_of, unchanged
from ..management.emails import refuse_encrypted

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """What a job would do."""

    action: Action
    emails: int  # that it would change, counted up to 10,000
    more: bool  # whether there may be more
    upto: str  # give it to `start_job`: then emails that come later are left as they are


class Seen(NamedTuple):
    """What a person has seen in a dry run, and what could take its place."""

    fits: Count
    stuck: Count  # failed and unknown emails, which a cancellation is for once they are retried


class _Found(NamedTuple):
    """What a job's row says of its emails."""

    upto: Place
    fits: Count
    ends: tuple[Place, Place] | None


class MoreNow(Exception):
    """More emails fit than a person has seen in a dry run, or may fit: no job was started."""


class OthersNow(MoreNow):
    """Others may fit, because somebody has retried or resolved some since: no job was started."""


class NoneNow(MoreNow):
    """Nothing fits any more of what a person has seen in a dry run: no job was started."""


def dry_run(runtime: Runtime, action: Any, filters: dict[str, Any]) -> DryRun:
    """Count what a job would change, and change nothing."""
    database, order = runtime.database, _order(runtime, action, filters)
    return database.read(lambda c: _counted(_from_now(c, database, order))[0])


def dry_run_to_start(runtime: Runtime, action: Any, filters: dict[str, Any]) -> tuple[DryRun, Seen]:
    """Return the dry run, and what `start` compares with what is there then."""
    database, order = runtime.database, _order(runtime, action, filters)

    def look(connection: Connection) -> tuple[DryRun, Seen]:
        walk = _from_now(connection, database, order)
        stuck = walk.stuck()  # first: an email that is retried between both looks is in both
        found, fits = _counted(walk)
        return found, Seen(fits, stuck)

    return database.read(look)


def start(
    runtime: Runtime,
    action: Any,
    filters: dict[str, Any],
    upto: Any,
    by: Any,
    seen: Seen | None = None,
) -> Job:
    """Write a job, and wake a sweep that begins with it.

    The place `upto` does not say all that a person has `seen`. An email before it may have been
    committed later, or may have come back to a status that the action is for. Raises MoreNow then,
    or OthersNow. Raises NoneNow where nothing fits any more.

    What a person has `seen` starts one job. If it has started one, that is returned.
    """
    database, order = runtime.database, _order(runtime, action, filters)
    act, given = act_of(by, "start job"), _place(upto)
    if seen is not None and (
        before := database.read(lambda c: _started(c, database, order, act, given))
    ):
        return before
    found = database.read(lambda c: _found(c, database, order, given))
    if seen is not None:
        _compare(found.fits, database.read(lambda c: _stuck(c, database, order, found.upto)), seen)

    def write(connection: Connection) -> Job:
        if seen is not None:
            counter.put(connection, database, counter.STARTED, found.upto.id)  # one at a time
            if before := _started(connection, database, order, act, given):
                return before
        return _written(connection, database, order, act, found)

    made = run_bounded(database, write)
    _wake(runtime)
    return made


def stop(runtime: Runtime, id: Any, by: Any) -> bool:  # noqa: A002
    """Stop a running job."""
    database, job_id, act = runtime.database, one_id(id), act_of(by, "stop job", job=one_id(id))

    def write(connection: Connection) -> bool:
        done = row.stop(connection, database, job_id)
        return _noted(act, connection, runtime, "stopped" if done else None, job_id)

    return run_bounded(database, write)


def resume(runtime: Runtime, id: Any, by: Any, since: datetime | None = None) -> bool:  # noqa: A002
    """Let a stopped job go on; with `since` only if nobody has stopped it anew since that stop."""
    database, job_id, act = runtime.database, one_id(id), act_of(by, "resume job", job=one_id(id))

    def write(connection: Connection) -> bool:
        done = row.resume(connection, database, job_id, since)
        return _noted(act, connection, runtime, "goes on" if done else None, job_id)

    done = run_bounded(database, write)
    _wake(runtime)
    return done


def jobs(runtime: Runtime, *, state: Any, limit: Any, before: Any) -> tuple[Job, ...]:
    """Return the newest jobs first."""
    database, most = runtime.database, limit_of(limit)
    first = None if before is None else one_id(before)
    if state is not None and state not in list(JobState):
        raise InvalidMessage("state", f"must be one of {', '.join(JobState)}")
    which = None if state is None else JobState(state)
    return database.read(lambda c: row.jobs(c, database, limit=most, before=first, state=which))


def job(runtime: Runtime, id: Any) -> Job | None:  # noqa: A002
    """Return one job, or None."""
    database, job_id = runtime.database, one_id(id)
    found = database.read(lambda c: row.jobs(c, database, limit=1, job_id=job_id))
    return found[0] if found else None


def _order(runtime: Runtime, action: Any, filters: dict[str, Any]) -> Order:
    refuse_encrypted(runtime, filters)
    return Order.check(runtime.settings.indexed, action, **filters)


def _from_now(connection: Connection, database: Database, order: Order) -> Walk:
    upto = beginning(connection, database)
    return Walk(connection=connection, database=database, order=order, upto=upto)


def _counted(walk: Walk) -> tuple[DryRun, Count]:
    found, upto = walk.count(), str(walk.upto)
    made = DryRun(action=walk.order.action, emails=found.emails, more=found.more, upto=upto)
    return made, found


def _stuck(connection: Connection, database: Database, order: Order, upto: Place) -> Count:
    return Walk(connection=connection, database=database, order=order, upto=upto).stuck()


def _compare(fits: Count, stuck: Count, seen: Seen) -> None:
    """Raise MoreNow or OthersNow if there is what the person has not seen, or may be; or NoneNow.

    While some of what was seen goes out, as many others may be retried. No count of what fits tells
    of that.
    """
    if not fits.emails and not fits.more:
        raise NoneNow
    if fits.exceeds(seen.fits):
        raise MoreNow
    if not seen.fits.more and fits.emails and stuck.lacks(seen.stuck):
        raise OthersNow


def _found(connection: Connection, database: Database, order: Order, given: Place | None) -> _Found:
    begins = given or beginning(connection, database)
    walk = Walk(connection=connection, database=database, order=order, upto=begins)
    return _Found(begins, walk.count(), walk.ends())


def _started(
    connection: Connection, database: Database, order: Order, act: Act | None, upto: Place | None
) -> Job | None:
    """Return the job that this person has started from this dry run: a form may be sent twice."""
    if act is None or upto is None:
        return None
    return row.started(connection, database, order, upto=upto, who=act.who)


def _written(
    connection: Connection, database: Database, order: Order, act: Act | None, found: _Found
) -> Job:
    """Write a job's row, and note its start in the audit."""
    who = None if act is None else act.who
    upto, fits, ends = found
    job_id = row.write(connection, database, order, upto=upto, count=fits, ends=ends, who=who)
    if act is not None:
        emails, more = fits
        told = f"{emails} or more emails" if more else counted(emails, "email")
        _about(act, job_id, order).note(connection, database, f"{told} found")
    (made,) = row.jobs(connection, database, limit=1, job_id=job_id)
    return made


def _place(upto: Any) -> Place | None:
    """Return the place of a dry run."""
    try:
        found = read_place(upto)
    except InvalidMessage:
        raise InvalidMessage("upto", "must be the `upto` of a dry run") from None
    if found is not None and found.moment is None:
        raise InvalidMessage("upto", "must be the `upto` of a dry run")
    return found


def _about(act: Act, job_id: int, order: Order) -> Act:
    """Return the act with what the job does; the audit is kept, so it names no person."""
    plain, names = texts_of(order.filters)
    what: dict[str, Any] = {"job": job_id, "do": order.action.value, **plain}
    if names:
        what["by"] = ", ".join(sorted(names))
    return Act(who=act.who, action=act.action, what=what)


def _wake(runtime: Runtime) -> None:
    """Have a sweep come soon, unless the app says that only beat asks for sweeps."""
    if runtime.settings.nudge and runtime.find_celery() is not None:
        runtime.nudge.wake()


def _noted(
    act: Act | None, connection: Connection, runtime: Runtime, result: str | None, job_id: int
) -> bool:
    """Note what was done, or without a `result` why nothing was; return whether anything was."""
    if act is not None:
        told = unchanged(_standing(act, connection, runtime, job_id)) if result is None else result
        act.note(connection, runtime.database, told)
    return result is not None


def _standing(act: Act, connection: Connection, runtime: Runtime, job_id: int) -> str:
    """Return how a job stands that could not be stopped or resumed."""
    found = row.jobs(connection, runtime.database, limit=1, job_id=job_id)
    if not found:
        return "is missing"
    is_anew = act.action == "resume job" and found[0].state is JobState.STOPPED
    return "was stopped anew since" if is_anew else f"is {found[0].state}"
