"""One sweep: rescues, expires, claims, and hands the batches out."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import partial

from ..domain.scheduling.claim_plan import ClaimRequest, LaneKey
from ..domain.scheduling.claim_planner import contenders, next_opening, plan_claims
from ..store.connection.database import Database
from ..store.connection.error_codes import describe, may_be_of_a_row
from ..store.control.forgotten_servers import note_configured
from ..store.control.rate_limits import avoided, correct_buckets
from ..store.control.set_back.correct_moments import correct_moments
from ..store.queries.sweep.locked_emails import locked_ways
from ..store.queries.sweep.sweep_snapshot import Snapshot, read_snapshot
from ..store.records import Claim
from ..store.transitions.claim import claim
from ..store.transitions.expire import expire
from ..store.transitions.rescue import Rescued, rescue
from .broker.queues import SEND_QUEUES
from .capacity.server_rooms import is_usable, rooms
from .log_events import log_rescue
from .probe import claim_probes
from .process.retry_writes import TOLD_EVERY
from .process.runtime import Runtime

_log = logging.getLogger("outbox")

NOTE_HALTED = "note its halted servers"
_NOTE_EVERY = 3600.0
"""Seconds until a process notes again that its halted servers are still configured."""

MAX_REPLANS = 3
"""How often a sweep plans again at most, where it could claim less than it had planned."""


def sweep(
    runtime: Runtime,
    hand_out: Callable[[Claim], object],
    wake: Callable[[float], None] = lambda _: None,
) -> int:
    """Claim due emails as far as slots are free, and hand each batch out; return how many emails.

    Sweeps may overlap and come at any rate. A sweep that finds nothing takes one statement, and no
    two sweeps claim the same email. In a copy of the outbox a sweep does nothing. `wake` is called
    with the seconds until a closed lane opens: it is to bring another sweep then.
    """
    database, slots = runtime.database, runtime.slots()
    snapshot = _take_snapshot(runtime, slots)
    runtime.has_jobs = snapshot.jobs
    if not runtime.sending_is_off() and runtime.instance.refusal(snapshot.instance):
        return 0
    runtime.has_rescued = snapshot.lapsed and _rescues(runtime)
    if snapshot.expired:
        _try_to(runtime, "expire", lambda: expire(database))
    if snapshot.ahead:
        ahead = snapshot.ahead
        _try_to(runtime, "correct its rate limits", lambda: correct_buckets(database, ahead))
    if snapshot.set_back:
        term = runtime.settings.lease
        _try_to(runtime, "correct moments to come", lambda: correct_moments(database, term))
    _note_halted_servers(runtime, snapshot)
    claims = _claims(runtime, snapshot, slots)
    for made in claims:
        hand_out(made)
    if (seconds := next_opening(snapshot.lags)) is not None:
        wake(seconds)
    return sum(made.emails for made in claims)


def publish(runtime: Runtime) -> Callable[[Claim], str]:
    """Return the function that hands a batch out over Celery, as a task with only its token.

    That returns "", or why the batch was not published. Where the broker fails, the emails stay
    claimed: whether the task was delivered is uncertain, so the end of the lease decides.
    """

    def hand_out(made: Claim) -> str:
        try:
            done = runtime.publish("outbox.send", SEND_QUEUES[made.priority], str(made.token))
            why = "" if done else "no worker takes those that wait"
        except Exception as error:  # noqa: BLE001  (any broker, any error: the lease decides)
            why = type(error).__name__
        if why:
            _log.warning("outbox: a batch was not published (%s)", why)
        return why

    return hand_out


def _rescues(runtime: Runtime) -> bool:
    """Rescue; return whether any email was judged."""
    found: list[Rescued] = []
    look = partial(rescue, runtime.database, runtime.settings, random=runtime.random)
    _try_to(runtime, "rescue", lambda: found.append(look()))
    for done in found:
        if done.leases or done.emails:
            log_rescue(leases=done.leases, emails=done.emails, in_doubt=done.in_doubt)
    return any(done.emails for done in found)


def _try_to(runtime: Runtime, what: str, work: Callable[[], object]) -> None:
    """Do work that no email waits for; log a failure, so that the sweep goes on to its claims.

    The next sweep comes in a second, and may fail alike: that is logged once a minute.
    """
    try:
        work()
    except Exception as error:  # noqa: BLE001  (where the database is away, the claims say so)
        told = f"outbox: a sweep could not {what} ({describe(error)})"
        if runtime.seldom.is_due(told, TOLD_EVERY):
            _log.error("%s", told)


def _take_snapshot(runtime: Runtime, slots: int, locked: Set[LaneKey] = frozenset()) -> Snapshot:
    """Read from the last sweep's marks on; where that may miss due emails, read everything.

    The snapshot has no emails of the ways that are `locked`.
    """
    database, lanes, servers = runtime.database, runtime.lanes, runtime.servers
    limit, since = slots * runtime.settings.batch, runtime.low_water.marks(database)
    choose = partial(_contenders, runtime, slots, locked)
    look = partial(read_snapshot, database, lanes, servers, limit=limit, choose=choose)
    try:
        snapshot = look(since=since, term=runtime.settings.lease)
        if not runtime.low_water.note(since, snapshot.due, snapshot.first, limit):
            snapshot = look(term=runtime.settings.lease)
            runtime.low_water.note({}, snapshot.due, snapshot.first, limit)
    except Exception:
        runtime.instance.forget()  # when the tables are back, they may be a backup's
        raise
    return _without(_with_avoided_rates(snapshot, database), locked)


def _with_avoided_rates(snapshot: Snapshot, database: Database) -> Snapshot:
    """Count rates whose rows this process did not get as used up for now."""
    return replace(snapshot, lags={**snapshot.lags, **avoided(database)})


def _without(snapshot: Snapshot, locked: Set[LaneKey]) -> Snapshot:
    left = {way: due for way, due in snapshot.due.items() if way not in locked}
    return replace(snapshot, due=left)


def _note_halted_servers(runtime: Runtime, snapshot: Snapshot) -> None:
    """Note once in `_NOTE_EVERY` seconds that halted servers are configured here.

    Otherwise a purge removes their breakers; see `purge_servers`.
    """
    halted = [name for name, limit in snapshot.servers.items() if limit is not None and limit < 1]
    if halted and runtime.seldom.is_due(NOTE_HALTED, _NOTE_EVERY):
        _try_to(runtime, NOTE_HALTED, lambda: note_configured(runtime.database, halted))


def _contenders(
    runtime: Runtime, slots: int, locked: Set[LaneKey], snapshot: Snapshot
) -> list[LaneKey]:
    return contenders(
        _without(snapshot, locked).due,
        snapshot.flight,
        lanes=runtime.lanes,
        lags=snapshot.lags,
        slots=slots,
        rooms=rooms(runtime, snapshot),
        turns=runtime.turns.last,
    )


def _claims(runtime: Runtime, snapshot: Snapshot, slots: int) -> list[Claim]:
    """Claim the probes, and what is due; return the claims."""
    if not snapshot.due or runtime.sending_is_off():
        return []
    usable = partial(is_usable, runtime, snapshot)
    claims = claim_probes(runtime, snapshot, is_usable=usable)
    failed: list[Exception] = []
    made, locked = _planned(runtime, snapshot, slots, failed)
    claims += made
    if locked and _without(snapshot, locked).due:
        # These claims are committed: they are handed out, whatever fails now.
        beside = partial(_claim_beside, runtime, snapshot, slots, locked, claims)
        _try_to(runtime, "claim beside locked emails", beside)
    if failed and not claims:  # no email of any lane passes
        raise failed[0]
    return claims


def _claim_beside(
    runtime: Runtime, snapshot: Snapshot, slots: int, locked: set[LaneKey], claims: list[Claim]
) -> None:
    """Plan and claim again without the ways that are `locked`; add to `claims`.

    A snapshot counts emails as due that a user's open transaction has locked. The slots that are
    planned for them would stay empty until it ends. If another sweep was faster instead, the new
    snapshot sees its claims.
    """
    for turn in range(MAX_REPLANS):
        if turn:  # it is not one way only: find all that are locked
            others = _without(snapshot, locked).due
            ordered = sorted(others, key=lambda way: (way[1], -others[way].age))
            locked |= locked_ways(runtime.database, ordered)
        snapshot = _take_snapshot(runtime, slots, locked)
        made, short = _planned(runtime, snapshot, slots, [])
        claims += made
        if not short:
            return
        locked |= short


def _planned(
    runtime: Runtime, snapshot: Snapshot, slots: int, failed: list[Exception]
) -> tuple[list[Claim], set[LaneKey]]:
    """Plan and claim; return the claims, and the ways with fewer batches than were planned.

    Their other emails could not be claimed: other transactions have locked them, or have changed
    them since the snapshot. Or none of their rows passes: the error of that is added to `failed`.
    """
    requests = plan_claims(
        snapshot.due,
        snapshot.flight,
        lanes=runtime.lanes,
        lags=snapshot.lags,
        slots=slots,
        batch=runtime.settings.batch,
        window=runtime.settings.window,
        rooms=rooms(runtime, snapshot),
        turns=runtime.turns.last,
    )
    claims = _claimed(runtime, snapshot, requests, failed)
    made = Counter((one.lane, one.priority) for one in claims)
    runtime.turns.note(made)
    ways = {(request.lane, request.priority): request.batches for request in requests}
    return claims, {way for way, batches in ways.items() if made[way] < batches}


def _claimed(
    runtime: Runtime, snapshot: Snapshot, requests: Sequence[ClaimRequest], failed: list[Exception]
) -> list[Claim]:
    term = runtime.settings.lease
    try:
        return claim(runtime.database, requests, lease_seconds=term, since=snapshot.first)
    except Exception as error:
        if not may_be_of_a_row(error):
            raise
        _log.error("outbox: a sweep could not claim (%s)", describe(error))
        failed.append(error)
        return []
