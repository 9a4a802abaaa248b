"""Plays the sweeps and batches of an outbox on a clock of its own: plans, permits, slots and caps.

Only what decides who is next is played. Every way has emails without end, older than any minute.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, pairwise
from random import Random

from outbox.domain.priority import Priority
from outbox.domain.scheduling.claim_plan import ClaimRequest, DueEmails, InFlight, LaneKey
from outbox.domain.scheduling.claim_planner import next_opening, plan_claims
from outbox.domain.scheduling.lanes import Lanes, route_of_lane
from outbox.domain.scheduling.overdue import is_kept_out
from outbox.domain.scheduling.token_bucket import MARGIN, SLACK, lag_after, wait
from outbox.worker.batch.throttle import LOST, PATIENCE
from outbox.worker.together.calm import ASK_EVERY
from outbox.worker.together.turns import Turns

BATCH, WINDOW = 50, 10
BATCH_SECONDS = 15.0
LATE = 0.005
"""Seconds by which a process wakes too late at most."""


@dataclass(kw_only=True)
class Rounds:
    """Workers with so many slots, and what waits for them; an email takes its server `seconds`."""

    ways: Mapping[LaneKey, float]  # the age of its first email, at the begin
    lanes: Lanes = field(default_factory=Lanes)
    slots: int = 1
    processes: int = 1
    caps: Mapping[str, int] = field(default_factory=dict)  # by route
    seconds: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        self.now = 0.0
        self.sent: dict[LaneKey, list[float]] = defaultdict(list)  # the moment of each email
        self.most = 0  # batches in flight at once
        self._turns = [Turns() for _ in range(self.processes)]
        self._flight: list[tuple[LaneKey, int]] = []  # and how many emails were claimed
        self._until = dict.fromkeys(self.lanes.all_buckets, -SLACK)
        self._events: list[tuple[float, int, Iterator[float]]] = []
        self._number = count()
        self._random = Random(self.seed).random

    def play(self, seconds: float) -> None:
        """Let beat and the workers go on for so many seconds."""
        self._begin(self._beat())
        while self._events[0][0] <= seconds:
            self.now, _, steps = heappop(self._events)
            self._begin(steps)

    def longest_wait(self, way: LaneKey) -> float:
        """Return the longest time in which no email of this way was sent."""
        moments = [0.0, *self.sent[way], self.now]
        return max(after - before for before, after in pairwise(moments))

    def _begin(self, steps: Iterator[float]) -> None:
        if (pause := next(steps, None)) is not None:
            late = self._random() * LATE  # no process wakes at the very moment
            heappush(self._events, (self.now + pause + late, next(self._number), steps))

    def _beat(self) -> Iterator[float]:
        while True:
            self._sweep(next(self._number) % self.processes)
            yield 1.0

    def _sweep(self, process: int) -> None:
        lags = {name: self._lag(name) for name in self._until if self._lag(name) > -SLACK}
        due = {
            way: DueEmails(emails=1000, age=age + self.now)
            for way, age in self.ways.items()
            if not self.lanes.is_closed(way[0], lags)
        }
        requests = plan_claims(
            due,
            self._in_flight(),
            lanes=self.lanes,
            lags=lags,
            slots=self.slots,
            batch=BATCH,
            window=WINDOW,
            rooms=self.caps,
            turns=self._turns[process].last,
        )
        self._turns[process].note((made.lane, made.priority) for made in requests)
        for made in requests:
            for _ in range(made.batches):
                self._flight.append(((made.lane, made.priority), made.size))
                self._begin(self._batch(made, int(self._random() * self.processes)))
        self.most = max(self.most, len(self._flight))
        if (seconds := next_opening(lags)) is not None and seconds < 1.0:
            self._begin(self._later(seconds, process))

    def _later(self, seconds: float, process: int) -> Iterator[float]:
        yield seconds
        self._sweep(process)

    def _batch(self, made: ClaimRequest, process: int) -> Iterator[float]:
        way, left, began, is_worth_a_sweep = (made.lane, made.priority), made.size, self.now, False
        self._turns[process].note([way])
        while left and self.now - began <= BATCH_SECONDS:
            window = min(left, WINDOW, self.lanes.max_window(made.lane) or WINDOW)
            waited = 0.0
            while (pause := self._take(way, window, waited)) > 0.0 and waited + pause <= PATIENCE:
                pause = min(pause, ASK_EVERY)
                yield pause
                waited += pause
            if pause > 0.0:
                break
            for _ in range(window):
                yield self.seconds
                self.sent[way].append(self.now)
            left, is_worth_a_sweep = left - window, True
        self._flight.remove((way, made.size))
        if is_worth_a_sweep:
            self._sweep(process)

    def _take(self, way: LaneKey, permits: int, waited: float) -> float:
        rates = self.lanes.buckets(way[0])
        is_early = way[1] is Priority.URGENT or (waited >= LOST and self._is_kept_out(way))
        margin = 0.0 if is_early else MARGIN
        pause = wait(max(map(self._lag, rates), default=-SLACK), margin)
        if pause == 0.0:
            for name, rate in rates.items():
                self._until[name] = self.now + lag_after(self._lag(name), rate, permits)
        return pause

    def _is_kept_out(self, way: LaneKey) -> bool:
        waiting = [lane for lane, priority in self.ways if priority is Priority.URGENT]
        return is_kept_out(way, self._in_flight(), waiting, self.lanes)

    def _lag(self, name: str) -> float:
        return self._until[name] - self.now

    def _in_flight(self) -> dict[LaneKey, InFlight]:
        batches = Counter(way for way, _ in self._flight)
        emails = Counter[LaneKey]()
        for way, size in self._flight:
            emails[way] += size
        return {way: InFlight(batches=n, emails=emails[way]) for way, n in batches.items()}

    def on_route(self, route: str) -> int:
        """Return how many batches are in flight over the servers of this route."""
        return sum(route_of_lane(lane) == route for (lane, _), _ in self._flight)
