"""One sweep: rescue, expire, claim, and hand the batches out."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..domain.claims import share
from ..domain.priority import Priority
from ..store import breaker
from ..store.claim import claim
from ..store.expire import expire
from ..store.rescue import rescue
from ..store.rows import Claim
from ..store.survey import Survey, survey
from .queues import SEND_QUEUES
from .runtime import Runtime

_log = logging.getLogger("outbox")


def sweep(runtime: Runtime, hand_out: Callable[[Claim], None]) -> int:
    """Claim what is due, as far as slots are free, and hand each batch out; return the mails.

    Sweeps may overlap and come as often as they like: one that finds nothing is one statement, and
    no two claim the same mail.
    """
    settings = runtime.settings
    state = survey(runtime.database, runtime.server.name, limit=settings.slots * settings.batch)
    if state.overdue:
        rescue(runtime.database, settings, random=runtime.random)
    if state.expired:
        expire(runtime.database)
    claims = _claims(runtime, state)
    for made in claims:
        hand_out(made)
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


def _claims(runtime: Runtime, state: Survey) -> list[Claim]:
    if state.closed or not any(state.due.values()):
        return []
    database, settings = runtime.database, runtime.settings
    if state.half_open:
        first = next(priority for priority in Priority if state.due[priority])
        if not breaker.probe(database, runtime.server.name):
            return []
        return claim(database, first, 1, lease=settings.lease)
    shares = share(
        state.due,
        free=settings.slots - state.in_flight,
        slots=settings.slots,
        urgent_in_flight=state.urgent_in_flight,
        batch=settings.batch,
        window=settings.window,
    )
    claims: list[Claim] = []
    for part in shares:
        for _ in range(part.batches):
            claims += claim(database, part.priority, part.size, lease=settings.lease)
    return claims
