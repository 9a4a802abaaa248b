"""One sweep: rescue, expire, claim, and hand the batches out."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..domain.claims import next_opening, share
from ..domain.priority import Priority
from ..store import breaker
from ..store.claim import claim, claim_shares
from ..store.expire import expire
from ..store.rescue import rescue
from ..store.rows import Claim
from ..store.survey import Survey, survey
from .queues import SEND_QUEUES
from .runtime import Runtime

_log = logging.getLogger("outbox")

_LOOKS = 8
"""Surveys of one sweep at most, where one finds lanes that the settings no longer name."""


def sweep(
    runtime: Runtime,
    hand_out: Callable[[Claim], None],
    wake: Callable[[float], None] = lambda _: None,
) -> int:
    """Claim what is due, as far as slots are free, and hand each batch out; return the mails.

    Sweeps may overlap and come as often as they like: one that finds nothing is one statement, and
    no two claim the same mail. `wake` is asked for a sweep in so many seconds, when a lane opens.
    """
    settings = runtime.settings
    state = _look(runtime)
    if state.overdue:
        rescue(runtime.database, settings, random=runtime.random)
    if state.expired:
        expire(runtime.database)
    claims = _claims(runtime, state)
    for made in claims:
        hand_out(made)
    if (seconds := next_opening(state.lags)) is not None:
        wake(seconds)
    return sum(made.mails for made in claims)


def publish(runtime: Runtime) -> Callable[[Claim], None]:
    """Return how a sweep in Celery hands a batch out: as a task that carries its token only.

    Where the broker fails the mails stay claimed: delivery is uncertain, and the lease decides.
    """

    def hand_out(made: Claim) -> None:
        try:
            runtime.publish("outbox.send", SEND_QUEUES[made.priority], str(made.token))
        except Exception as error:  # noqa: BLE001  (any broker, any error: the lease decides)
            _log.warning("outbox: a batch was not published (%s)", type(error).__name__)

    return hand_out


def _look(runtime: Runtime) -> Survey:
    settings, lanes = runtime.settings, runtime.lanes
    for _ in range(_LOOKS):
        limit = settings.slots * settings.batch
        state = survey(runtime.database, lanes, runtime.server.name, limit=limit)
        if not state.strays:
            break
        lanes.adopt(state.strays)
    return state


def _claims(runtime: Runtime, state: Survey) -> list[Claim]:
    if state.closed or not state.due:
        return []
    database, settings = runtime.database, runtime.settings
    if state.half_open:
        lane, priority = min(state.due, key=_urgency)
        if not breaker.probe(database, runtime.server.name):
            return []
        return claim(database, priority, 1, lease=settings.lease, lane=lane)
    shares = share(
        state.due,
        state.flight,
        lanes=runtime.lanes,
        lags=state.lags,
        slots=settings.slots,
        batch=settings.batch,
        window=settings.window,
    )
    return claim_shares(database, shares, lease=settings.lease)


def _urgency(way: tuple[str, Priority]) -> tuple[Priority, str]:
    return way[1], way[0]
