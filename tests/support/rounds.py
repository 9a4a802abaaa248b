"""Plays sweeps and batches on a clock of its own: plans, permits, slots, caps, processes, yields.

Only what decides who is next is played. Every way has emails without end, older than any minute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, pairwise
from random import Random

from outbox.domain.priority import Priority
from outbox.domain.scheduling.claim_plan import DueEmails, InFlight, LaneKey
from outbox.domain.scheduling.claim_planner import contenders, next_opening, plan_claims
from outbox.domain.scheduling.lanes import Lanes, route_of_lane
from outbox.domain.scheduling.overdue import is_kept_out, spared
from outbox.domain.scheduling.token_bucket import MARGIN, SLACK, lag_after, wait
from outbox.worker.batch.throttle import LOST, PATIENCE
from outbox.worker.together.calm import ASK_EVERY
from outbox.worker.together.turns import Turns

BATCH, WINDOW = 50, 10
BATCH_SECONDS = 15.0
STUCK = 0.3  # as `store/queries/sweep/preemption.py` has it
LATE = 0.005
"""Seconds by which a process wakes too late at most."""


@dataclass(kw_only=True, eq=False)
class _Batch:
    way: LaneKey
    size: int
    claimed_at: float
    is_started: bool = False


@dataclass(kw_only=True)
class Rounds:
    """Workers with so many slots, and what waits for them; an email takes its server `seconds`.

    A batch that is claimed starts when one of the `processes` is free.
    """

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
        self._idle = list(range(self.processes))
        self._flight: list[_Batch] = []
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
            if self._idle:
                self._sweep(self._idle[0])
            yield 1.0

    def _sweep(self, process: int) -> None:
        lags = self._lags()
        requests = plan_claims(
            self._due(lags),
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
                way = (made.lane, made.priority)
                self._flight.append(_Batch(way=way, size=made.size, claimed_at=self.now))
        self.most = max(self.most, len(self._flight))
        self._start()
        if (seconds := next_opening(lags)) is not None and seconds < 1.0:
            self._begin(self._later(seconds))

    def _later(self, seconds: float) -> Iterator[float]:
        yield seconds
        if self._idle:
            self._sweep(self._idle[0])

    def _start(self) -> None:
        """Have each free process take a batch of any queue that has one."""
        while self._idle and (waiting := [one for one in self._flight if not one.is_started]):
            queues = sorted({one.way[1] for one in waiting})
            queue = queues[int(self._random() * len(queues))]
            batch = next(one for one in waiting if one.way[1] is queue)
            batch.is_started = True
            self._begin(self._run(batch, self._idle.pop(int(self._random() * len(self._idle)))))

    def _run(self, batch: _Batch, process: int) -> Iterator[float]:
        way, left, began, is_worth_a_sweep = batch.way, batch.size, self.now, False
        self._turns[process].note([way])
        while left and self.now - began <= BATCH_SECONDS:
            window = min(left, WINDOW, self.lanes.max_window(way[0]) or WINDOW)
            waited, is_whole = 0.0, window == batch.size
            while (pause := self._take(way, window, waited)) > 0.0:
                if waited + pause > PATIENCE or self._yields(batch, began, waits=is_whole):
                    break
                pause = min(pause, ASK_EVERY)
                yield pause
                waited += pause
            if pause > 0.0:
                break
            start = self.now  # nobody looks into a window: it is one step
            yield window * self.seconds
            self.sent[way] += (start + number * self.seconds for number in range(1, window + 1))
            left, is_worth_a_sweep = left - window, True
            if left and self._yields(batch, began):
                break
        is_worth_a_sweep = is_worth_a_sweep or self._yields(batch, began)
        self._flight.remove(batch)
        if is_worth_a_sweep:
            self._sweep(process)
        self._idle.append(process)
        self._start()

    def _yields(self, batch: _Batch, began: float, *, waits: bool = False) -> bool:
        """Return whether a batch gives way, as `YieldQuestion` decides it."""
        own = batch.way[1]
        if own is Priority.URGENT or self.now < began + ASK_EVERY:
            return False
        waiting = [lane for lane, priority in self.ways if priority is Priority.URGENT]
        spares = spared(batch.way, self._in_flight(), waiting, self.lanes)
        others = [one for one in self._flight if one.way[1] < own]
        pending = [one for one in others if not (one.is_started or (waits and spares(one.way)))]
        holding = sum(one.is_started or one.way[1] > 0 for one in self._flight)
        stuck = {one.way[1] for one in pending if one.claimed_at < self.now - STUCK}
        published = any(one.way[1] is Priority.URGENT for one in pending)
        could_go = {way[1] for way in self._claimable(batch) if not (waits and spares(way))}
        if Priority.URGENT in stuck | could_go or (published and holding >= self.slots):
            return True
        is_free = not any(one.is_started or one.claimed_at >= self.now - STUCK for one in others)
        return own is Priority.BULK and is_free and Priority.NORMAL in stuck | could_go

    def _claimable(self, batch: _Batch) -> list[LaneKey]:
        """Return the more urgent ways that a sweep would claim if this batch ended."""
        lags, flight = self._lags(), self._in_flight(without=batch)
        due = {way: found for way, found in self._due(lags).items() if way[1] < batch.way[1]}
        slots = len(self._flight) + len(due)
        return contenders(due, flight, lanes=self.lanes, lags=lags, slots=slots, rooms=self.caps)

    def _due(self, lags: Mapping[str, float]) -> dict[LaneKey, DueEmails]:
        return {
            way: DueEmails(emails=1000, age=age + self.now)
            for way, age in self.ways.items()
            if not self.lanes.is_closed(way[0], lags)
        }

    def _lags(self) -> dict[str, float]:
        return {name: self._lag(name) for name in self._until if self._lag(name) > -SLACK}

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

    def _in_flight(self, without: _Batch | None = None) -> dict[LaneKey, InFlight]:
        found = defaultdict[LaneKey, list[int]](list)
        for one in self._flight:
            if one is not without:
                found[one.way].append(one.size)
        return {way: InFlight(batches=len(n), emails=sum(n)) for way, n in found.items()}

    def on_route(self, route: str) -> int:
        """Return how many batches are in flight over the servers of this route."""
        return sum(route_of_lane(one.way[0]) == route for one in self._flight)
