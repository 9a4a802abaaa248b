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
from functools import partial
from itertools import accumulate
from math import inf
from types import MappingProxyType
from uuid import UUID

from ...domain.priority import Priority
from ...domain.scheduling.lanes import AHEAD, PermitCost, Wants
from ...domain.scheduling.token_bucket import MARGIN, Rate
from ...store.control.rate_limits import avoided, take
from ...store.queries.sweep.urgent_email import is_urgent_active, keeps_out
from ...store.records import Batch, ClaimedEmail
from ...store.transitions.release import give_back_to_lanes
from ..capacity.claimable import Mine, gives_way
from ..process import shutdown
from ..process.retry_writes import until_written
from ..process.runtime import Runtime
from ..together.calm import ASK_EVERY, pause_after

PATIENCE = 2.0
"""Seconds that a window waits for its permits. They are more than `lanes.AHEAD`, so that a
batch which was claimed shortly before its lane opens is not given back."""

LOST = 0.5
"""Seconds for which a window waits before it asks whether urgent email takes all the permits."""

REST = 1.0
"""Seconds for which an email rests that came from the lane of one rate into that of another."""


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
        self._has_begun = False  # a window has its permits
        self._holds = holds
        self._pause = pause
        most = runtime.lanes.max_window(batch.lane)
        self.window_limit = inf if most is None else most
        """How many recipients a window may have; one email may have more."""
        self._is_one_window = len(batch.emails) <= min(runtime.settings.window, self.window_limit)
        self._yield_answer = _RecentAnswer(runtime.clock, after=ASK_EVERY)
        self._urgent_answer = _RecentAnswer(runtime.clock)
        self._kept_out_answer = _RecentAnswer(runtime.clock)

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
        is_whole = self._is_one_window and not self._has_begun
        try:
            self._mine = self._mine._replace(beside=beside if is_whole else None)
            has_permits = self._wait(charge, beside, before_wait, patience)
        finally:
            self._mine = self._mine._replace(beside=None)
        self._has_begun |= has_permits
        return has_permits

    def _wait(
        self,
        charge: PermitCost,
        beside: Mapping[str, Rate],
        before_wait: Callable[[], object],
        patience: float,
    ) -> bool:
        waited, margin = 0.0, MARGIN
        while (seconds := until_written(partial(self._take, charge, margin))) > 0.0:
            if waited + seconds > patience or self._must_end():
                return False
            if not waited:
                before_wait()
            seconds = min(seconds, ASK_EVERY)
            self._pause(seconds)
            waited += seconds
            if waited >= LOST:
                margin = 0.0 if self._is_kept_out(beside) else MARGIN
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

        It is called between windows, and asks the database seldom (see `Calm`). A batch that has
        just begun does not ask yet: its sweep saw that email, and would claim the batch again.
        """
        if self._priority is Priority.URGENT or self._runtime.calm.holds(self._way):
            return False
        return self._yield_answer.now(self._ask_to_yield)

    def _ask_to_yield(self) -> bool:
        return self._runtime.calm.ask(self._way, partial(gives_way, self._runtime, self._mine))

    def _must_end(self) -> bool:
        return shutdown.requested() or not self._holds() or self.must_yield()

    def _take(self, charge: PermitCost, margin: float) -> float:
        is_urgent = self._priority is Priority.URGENT
        share = {} if is_urgent else self._share(charge.required)
        seconds, margin = inf, 0.0 if is_urgent else margin
        for _ in range(2):  # the first one finds out which rows are locked
            ours, debts = self._at_hand(share), self._at_hand(charge.charged_anyway)
            wants = {**charge.required, **ours}
            seconds = take(self._database, wants, debts=debts, margin=margin)
            if seconds < inf or not (ours or debts):
                break
        return seconds

    def _at_hand(self, beside: Wants) -> Wants:
        """Return those buckets beside the lane's own whose rows this process does not avoid.

        A claim does not know of them. If emails waited for a locked row of theirs, the first one
        that needs it would keep back the whole lane, for as long as the lock lasts.
        """
        if not beside:  # as with almost every window
            return beside
        locked = avoided(self._database)
        return {name: cost for name, cost in beside.items() if name not in locked}

    def _is_kept_out(self, beside: Mapping[str, Rate]) -> bool:
        """Return whether urgent email without end would take each permit before this window."""
        if self._priority is Priority.URGENT or not self._runtime.calm.has_urgent:
            return False
        return self._kept_out_answer.now(
            lambda: keeps_out(self._database, self._lanes, self._way, beside)
        )

    def _share(self, wants: Wants) -> Wants:
        """Return bulk's own buckets, which limit bulk to its share while urgent email is active."""
        if self._priority is not Priority.BULK or not self._urgent_answer.now(
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


class _RecentAnswer:
    """The database's last answer to a question, which may be a moment old."""

    def __init__(self, clock: Callable[[], float], *, after: float = 0.0) -> None:
        self._clock = clock
        self._until = clock() + after
        self._answer = False

    def now(self, ask: Callable[[], bool]) -> bool:
        if (begun := self._clock()) >= self._until:
            self._answer = until_written(ask)
            ended = self._clock()
            self._until = ended + pause_after(ended - begun)
        return self._answer


def return_relaned(runtime: Runtime, token: UUID, batch: Batch) -> Batch:
    """Return the batch without the emails under a rate that their lane does not know.

    That rate was set after they were enqueued. They go back, uncharged, into the lane of that rate.

    From the lane of another rate they come with a rest. Of an email to several domains an older
    version names another lane, and its workers would pass it to and fro with ours all the time.
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
    rest = REST if lanes.is_limited(batch.lane) else 0.0
    until_written(lambda: give_back_to_lanes(runtime.database, token, homes, seconds=rest))
    return replace(batch, emails=tuple(kept))
