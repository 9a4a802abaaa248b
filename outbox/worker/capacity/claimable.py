"""Tells whether to give way to email that a sweep would claim if a batch ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

from ...domain.priority import Priority
from ...domain.scheduling.claim_plan import InFlight, LaneKey
from ...domain.scheduling.claim_planner import contenders
from ...domain.scheduling.overdue import spared
from ...domain.scheduling.token_bucket import Rate
from ...store.queries.sweep.preemption import AskSpared, YieldQuestion, spares_none
from ...store.queries.sweep.sweep_snapshot import COUNTED, Snapshot, read_snapshot
from ...store.records import Batch
from ..process.runtime import Runtime
from .server_rooms import rooms


class Mine(NamedTuple):
    """What the batch that asks has in flight: it would be free if the batch ended."""

    lane: str
    priority: Priority
    emails: int
    beside: Mapping[str, Rate] | None = None
    """Of a window that waits for permits, and is its whole batch: the buckets beside its lane's."""

    @classmethod
    def of(cls, batch: Batch) -> Mine:
        """Return what this batch has."""
        return cls(batch.lane, batch.priority, len(batch.emails))


class Answer(NamedTuple):
    """Whether to give way, and whether each batch of this process would get the same answer."""

    gives_way: bool
    is_for_all: bool


class Claimable:
    """The ways whose emails a sweep would claim if the batch that asks ended.

    The sweep's own plan decides, which knows the emails in flight of each rate, the caps of servers
    and the ramp after an outage. It takes one statement, when it is first called.
    """

    def __init__(
        self, runtime: Runtime, mine: Mine | None, priorities: Sequence[Priority] = tuple(Priority)
    ) -> None:
        self._runtime = runtime
        self._mine = mine
        self._priorities = priorities
        self.was_asked = False

    def __call__(self, without: Set[LaneKey] = frozenset()) -> Collection[LaneKey]:
        """Return the ways, as if the emails of some were not there."""
        self.was_asked = True
        snapshot, flight = self._snapshot, self._others
        return contenders(
            {way: due for way, due in snapshot.due.items() if way not in without},
            flight,
            lanes=self._runtime.lanes,
            lags=snapshot.lags,
            slots=sum(found.batches for found in flight.values()) + COUNTED,
            rooms=rooms(self._runtime, snapshot),
        )

    @cached_property
    def _snapshot(self) -> Snapshot:
        runtime = self._runtime
        return read_snapshot(
            runtime.database,
            runtime.lanes,
            runtime.servers,
            limit=1,
            choose=lambda _: (),
            term=runtime.settings.lease,
            priorities=self._priorities,
        )

    @property
    def _others(self) -> dict[LaneKey, InFlight]:
        """What the other batches have in flight."""
        flight = dict(self._snapshot.flight)
        if self._mine is None:
            return flight
        way = (self._mine.lane, self._mine.priority)
        if (found := flight.get(way)) is not None and found.batches:
            left = found.batches - 1
            emails = max(0, found.emails - self._mine.emails) if left else 0
            flight[way] = replace(found, batches=left, emails=emails)
        return flight


def gives_way(runtime: Runtime, mine: Mine | None = None) -> Answer:
    """Return whether a batch, or other work, gives way to more urgent email."""
    priority = Priority.BULK if mine is None else mine.priority
    plan = Claimable(runtime, mine, [one for one in Priority if one < priority])
    spares = _spares(runtime, mine)
    question = YieldQuestion(runtime.database, runtime.lanes, runtime.routes, plan, spares)
    is_bulk = mine is not None and priority is Priority.BULK
    ask = question.bulk_yields if is_bulk else question.yields_to_urgent
    yields = ask(slots=runtime.slots())
    runtime.calm.has_urgent = question.has_urgent
    return Answer(yields, not plan.was_asked and not question.has_spared)


def _spares(runtime: Runtime, mine: Mine | None) -> AskSpared:
    """Return the function that tells which ways this batch does not give way to."""
    if mine is None or mine.beside is None:
        return spares_none
    way = (mine.lane, mine.priority)
    return partial(spared, way, lanes=runtime.lanes, beside=mine.beside)


def are_left(runtime: Runtime, mine: Mine | None = None) -> bool:
    """Return whether an email could go, over any server, that no process has been free to take."""
    plan = Claimable(runtime, mine)
    question = YieldQuestion(runtime.database, runtime.lanes, runtime.routes, plan)
    return question.is_any_left(term=runtime.settings.lease)
