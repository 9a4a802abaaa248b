"""The figures of a period, computed from the counts of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from ..delivery.transaction import Verdict
from .histogram import quantiles
from .spans import Period, Range, moment_of


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeToAccepted:
    """The seconds from an email's first due time until a server accepted it.

    Half of the accepted emails took at most `p50` seconds, 95 % at most `p95`, and 99 % at most
    `p99`. All are None if none was accepted.
    """

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FiguresPoint:
    """The attempts of one minute or one hour."""

    moment: datetime  # its beginning
    verdicts: dict[Verdict, int]  # how many attempts ended so; zeros are left out
    accepted_in: TimeToAccepted


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureCount:
    """How many attempts one server ended in one way, other than by accepting the email."""

    server: str  # "" if a worker was lost before its reply, or if none was asked: `suspect`
    verdict: Verdict
    code: int  # the SMTP code; 0 if there was no reply
    attempts: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What became of the attempts of a period. Each counts in the minute in which it ended."""

    last: Period
    since: datetime
    until: datetime  # the database's time; the last point goes up to it
    verdicts: dict[Verdict, int]  # of all points; zeros are left out
    accepted_a_second: float  # from `since` to `until`
    accepted_in: TimeToAccepted
    points: tuple[FiguresPoint, ...]  # without gaps, the oldest first
    failures: tuple[FailureCount, ...]  # the most frequent first


Count = tuple[int, str, int, str, int, int]
"""So many attempts of one minute or hour: the minute, the verdict, the bin of the histogram, the
server, the code, and the number. Only failures have a server and a code."""


class _Sums:
    """What attempts add up to: of one point, or of all points."""

    def __init__(self) -> None:
        self.failed = Counter[str]()  # by verdict
        self.bins = Counter[int]()  # of the accepted ones

    def add(self, other: _Sums) -> None:
        self.failed.update(other.failed)
        self.bins.update(other.bins)

    def by_verdict(self) -> dict[Verdict, int]:
        found = {Verdict.SENT: self.bins.total()}
        found |= {Verdict(verdict): attempts for verdict, attempts in sorted(self.failed.items())}
        return {verdict: attempts for verdict, attempts in found.items() if attempts > 0}

    def accepted_in(self) -> TimeToAccepted:
        p50, p95, p99 = quantiles(self.bins, 0.5, 0.95, 0.99)
        return TimeToAccepted(p50=p50, p95=p95, p99=p99)


def figures_of(range_: Range, counts: Iterable[Count]) -> Figures:
    """Return the figures of these points, from the sums that the table has."""
    points = {minute: _Sums() for minute in range_.minutes}
    whole, failures = _Sums(), Counter[tuple[str, str, int]]()
    for minute, verdict, number, server, code, attempts in counts:
        if (point := points.get(minute)) is None:
            continue  # a worker's clock is ahead
        if verdict == Verdict.SENT:
            point.bins[number] += attempts
        else:
            point.failed[verdict] += attempts
            failures[server, verdict, code] += attempts
    for point in points.values():
        whole.add(point)
    since, verdicts = moment_of(range_.minutes[0]), whole.by_verdict()
    return Figures(
        last=range_.period,
        since=since,
        until=range_.until,
        verdicts=verdicts,
        accepted_a_second=verdicts.get(Verdict.SENT, 0) / (range_.until - since).total_seconds(),
        accepted_in=whole.accepted_in(),
        points=tuple(_point(minute, sums) for minute, sums in points.items()),
        failures=_most_frequent(failures),
    )


def _point(minute: int, sums: _Sums) -> FiguresPoint:
    return FiguresPoint(
        moment=moment_of(minute), verdicts=sums.by_verdict(), accepted_in=sums.accepted_in()
    )


def _most_frequent(failures: Mapping[tuple[str, str, int], int]) -> tuple[FailureCount, ...]:
    # A refusal that a worker of an older version recorded was never counted. Once it is taken back
    # as the server's own fault, its count is below zero.
    found = [
        FailureCount(server=server, verdict=Verdict(verdict), code=code, attempts=attempts)
        for (server, verdict, code), attempts in failures.items()
        if attempts > 0
    ]
    return tuple(sorted(found, key=lambda one: (-one.attempts, one.server, one.verdict, one.code)))
