"""Sets the pace of one batch: permits for its windows, and precedence for urgent email.

`return_relaned` first takes out the emails that belong to another lane now. Then the `Throttle`
bounds the recipients of each window, waits for the window's permits, and tells whether the batch
must give way.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import inf
from types import MappingProxyType
from uuid import UUID

from ...domain.priority import Priority
from ...domain.scheduling.claim_plan import AHEAD
from ...domain.scheduling.lanes import PermitCost, Wants
from ...domain.scheduling.token_bucket import MARGIN, Rate
from ...store.control.rate_limits import take
from ...store.queries.sweep.preemption import is_urgent_active
from ...store.records import Batch, ClaimedEmail
from ...store.transitions.release import give_back_to_lanes
from ..capacity.claimable import Mine, gives_way
from ..process import shutdown
from ..process.retry_writes import until_written
from ..process.runtime import Runtime

PATIENCE = 2.0
"""Seconds that a window waits for its permits. They are more than `claim_plan.AHEAD`, so that a
batch which was claimed shortly before its lane opens is not given back."""

LOOK = 0.1
"""Seconds between two checks for urgent email and for a shutdown while a batch goes on."""


MOST_CALM = 10
"""The most looks' time for which a way does not ask, while email waits that cannot go for it."""


class Throttle:
    """Takes permits for one batch. Without rates it takes none and asks the database nothing."""

    def __init__(
        self,
        runtime: Runtime,
        batch: Batch,
        *,
        holds: Callable[[], bool] = lambda: True,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._runtime = runtime
        self._database = runtime.database
        self._lanes = runtime.lanes
        self._lane, self._priority = self._way = batch.lane, batch.priority
        self._mine = Mine.of(batch)
        self._holds = holds
        self._pause = pause
        most = runtime.lanes.max_window(batch.lane)
        self.window_limit = inf if most is None else most
        """How many recipients a window may have; one email may have more."""
        self._waits = _Look(runtime.clock, after=LOOK)
        self._stirs = _Look(runtime.clock)

    def permit(
        self,
        emails: Sequence[ClaimedEmail],
        *,
        beside: Mapping[str, Rate] = MappingProxyType({}),
        before_wait: Callable[[], object] = lambda: None,
        patience: float = PATIENCE,
    ) -> bool:
        """Take a window's permits; return False where the rest of the batch is to be given back.

        They are taken from the buckets of its lane and from those `beside` it. It waits up to
        `patience` seconds for them. `before_wait` is called once before the first wait: it records
        what was sent, so that no result waits with the window.
        """
        recipients = [address for email in emails for address in email.envelope.recipients]
        charge = self._lanes.cost(self._lane, recipients)
        if beside:
            more = {name: (rate, len(recipients)) for name, rate in beside.items()}
            charge = replace(charge, required={**charge.required, **more})
        if not charge.required and not charge.charged_anyway:
            return True
        waited = 0.0
        while (seconds := until_written(lambda: self._take(charge))) > 0.0:
            if waited + seconds > patience or self._must_end():
                return False
            if not waited:
                before_wait()
            seconds = min(seconds, LOOK)
            self._pause(seconds)
            waited += seconds
        return True

    def permit_moved(self, emails: Sequence[ClaimedEmail], buckets: Mapping[str, Rate]) -> int:
        """Take a server's permits for emails of an open window; return how many emails may go.

        The emails move to this server from another one, and already have the permits of their lane.
        Those that may go are the first of `emails`. It does not wait.
        """
        if not buckets:
            return len(emails)
        most = min(rate.chunk for rate in buckets.values())
        recipients = list(accumulate(len(email.envelope.recipients) for email in emails))
        first = max(1, sum(total <= most for total in recipients))
        wants = {name: (rate, recipients[first - 1]) for name, rate in buckets.items()}
        return first if until_written(lambda: take(self._database, wants)) <= 0.0 else 0

    def must_yield(self) -> bool:
        """Return whether to give the rest of the batch back, because more urgent email waits.

        It is called between windows. All batches of a process ask the database at most ten times a
        second while nothing waits. Where something does, each asks for itself: once one has given
        way, the others need not. A batch that has just begun does not ask yet: its sweep saw that
        email, and would claim the batch again.
        """
        runtime, now = self._runtime, self._runtime.clock()
        calm_until = max(runtime.calm_until, runtime.calm_ways.get(self._way, 0.0))
        if self._priority is Priority.URGENT or now < calm_until:
            return False
        return self._waits.at(self._must_wait)

    def _must_wait(self) -> bool:
        runtime, begun = self._runtime, self._runtime.clock()
        runtime.calm_until = begun + LOOK  # the others need not ask meanwhile
        waits = is_for_all = True
        try:
            waits, is_for_all = gives_way(runtime, self._mine)
        finally:
            ended = runtime.clock()
            pause = 0.0 if waits else _pause_after(ended - begun)
            runtime.calm_until = ended + pause if is_for_all and pause else 0.0
            if not is_for_all and not waits:
                self._calm_way(ended, pause)
        return waits

    def _calm_way(self, now: float, pause: float) -> None:
        """Have the batches of this way ask later; of many ways each does so less often."""
        calm = {way: until for way, until in list(self._runtime.calm_ways.items()) if until > now}
        calm[self._way] = now + pause * min(MOST_CALM, 1 + len(calm))
        self._runtime.calm_ways = calm

    def _must_end(self) -> bool:
        return shutdown.requested() or not self._holds() or self.must_yield()

    def _take(self, charge: PermitCost) -> float:
        if self._priority is Priority.URGENT:
            return take(self._database, charge.required, debts=charge.charged_anyway)
        wants = {**charge.required, **self._share(charge.required)}
        return take(self._database, wants, debts=charge.charged_anyway, margin=MARGIN)

    def _share(self, wants: Wants) -> Wants:
        """Return bulk's own buckets, which limit bulk to its share while urgent email is active."""
        if self._priority is not Priority.BULK or not self._stirs.at(
            lambda: is_urgent_active(self._database, self._lanes, self._lane)
        ):
            return {}
        part = self._runtime.settings.bulk_share
        # The debt is kept short. Claims look at the lane's own buckets only: a batch that found
        # this one closed for long would be given back and claimed again without end.
        return {
            f"{name}/bulk": (rate.part(part), min(permits, rate.part(part).within(AHEAD)))
            for name, (rate, permits) in wants.items()
        }


class _Look:
    """An answer of the database that may be a moment old.

    A look that takes long, as with thousands of lanes on MariaDB, is made less often. So looks take
    a tenth of a batch's time at most.
    """

    def __init__(self, clock: Callable[[], float], *, after: float = 0.0) -> None:
        self._clock = clock
        self._until = clock() + after
        self._answer = False

    def at(self, look: Callable[[], bool]) -> bool:
        if (begun := self._clock()) >= self._until:
            self._answer = until_written(look)
            ended = self._clock()
            self._until = ended + _pause_after(ended - begun)
        return self._answer


def _pause_after(seconds: float) -> float:
    """Return the seconds until the next look, after one that took so many."""
    return max(LOOK, 9 * seconds)


def return_relaned(runtime: Runtime, token: UUID, batch: Batch) -> Batch:
    """Return the batch without the emails under a rate that their lane does not know.

    That rate was set after they were enqueued. They go back, uncharged, into the lane of that rate.
    """
    lanes = runtime.lanes
    if not lanes.domains:
        return batch
    route, homes = batch.route, defaultdict[str, list[int]](list)
    ours = lanes.buckets(batch.lane).keys()
    kept: list[ClaimedEmail] = []
    for email in batch.emails:
        home = lanes.of(route, email.envelope.recipients)
        if lanes.buckets(home).keys() <= ours:
            kept.append(email)
        else:
            homes[home].append(email.id)
    if not homes:
        return batch
    until_written(lambda: give_back_to_lanes(runtime.database, token, homes))
    return replace(batch, emails=tuple(kept))
