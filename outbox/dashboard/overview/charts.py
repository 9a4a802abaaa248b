"""The charts, as tables: a script draws them, and without it they are read. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...domain.delivery.transaction import Verdict
from ...domain.figures.figures import FailureCount, Figures, FiguresPoint
from ...domain.figures.spans import MINUTE

_FAILURES = {
    "put off": (Verdict.RETRY,),
    "refused": (Verdict.FAIL, Verdict.LACKING),
    "in doubt": (Verdict.UNKNOWN,),
    "by the server's fault": (Verdict.HALT, Verdict.SUSPECT, Verdict.UNSENT),
}
WORDS = {verdict: words for words, verdicts in _FAILURES.items() for verdict in verdicts}
"""What happened to an attempt that was not accepted."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One minute or hour of a chart."""

    point: FiguresPoint
    values: tuple[float | None, ...]  # one of each series


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart: what it shows, its series, and its rows; no rows where nothing happened."""

    name: str
    title: str
    nothing: str  # what the page says where there are no rows
    series: tuple[str, ...]
    unit: str  # "" or "s"
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class FailureLine:
    """How many attempts failed in one way, in words."""

    attempt: str
    server: str
    reply: str
    attempts: int


@dataclass(frozen=True, kw_only=True)
class Charts:
    """All charts of a period, and the failures by reason."""

    all: tuple[Chart, ...]
    accepted: int
    a_second: float
    p50: float | None
    p95: float | None
    p99: float | None
    failures: tuple[FailureLine, ...]


def charts_of(found: Figures) -> Charts:
    """Return the charts of these figures."""
    times = found.accepted_in
    return Charts(
        all=(_accepted(found), _times(found), _failed(found)),
        accepted=found.verdicts.get(Verdict.SENT, 0),
        a_second=found.accepted_a_second,
        p50=times.p50,
        p95=times.p95,
        p99=times.p99,
        failures=tuple(map(_failure_line, found.failures)),
    )


def _failure_line(found: FailureCount) -> FailureLine:
    attempt, reply = WORDS.get(found.verdict, found.verdict), str(found.code or "no reply")
    server = found.server or "a worker was lost"
    if found.verdict is Verdict.SUSPECT and not found.server:  # such as a missing encryption key
        attempt, server, reply = "put off", "before a server was asked", "\N{EN DASH}"
    return FailureLine(attempt=attempt, server=server, reply=reply, attempts=found.attempts)


def _accepted(found: Figures) -> Chart:
    return Chart(
        name="accepted",
        title="Accepted in each minute" if found.last.span == MINUTE else "Accepted in each hour",
        nothing="No message was accepted.",
        series=("accepted",),
        unit="",
        rows=_rows(found, lambda point: (point.verdicts.get(Verdict.SENT, 0),)),
    )


def _times(found: Figures) -> Chart:
    def values(point: FiguresPoint) -> tuple[float | None, ...]:
        times = point.accepted_in
        return times.p50, times.p95, times.p99

    return Chart(
        name="times",
        title="Seconds until accepted",
        nothing="No message was accepted.",
        series=("half within", "95 % within", "99 % within"),
        unit="s",
        rows=_rows(found, values),
    )


def _failed(found: Figures) -> Chart:
    def values(point: FiguresPoint) -> tuple[float | None, ...]:
        return tuple(
            sum(point.verdicts.get(verdict, 0) for verdict in verdicts)
            for verdicts in _FAILURES.values()
        )

    return Chart(
        name="failures",
        title="Attempts that were not accepted",
        nothing="Every attempt was accepted, or there was none.",
        series=tuple(_FAILURES),
        unit="",
        rows=_rows(found, values),
    )


def _rows(
    found: Figures, values: Callable[[FiguresPoint], tuple[float | None, ...]]
) -> tuple[Row, ...]:
    """Return a row for each point; none where all are empty."""
    rows = tuple(Row(point=point, values=values(point)) for point in found.points)
    return rows if any(any(row.values) for row in rows) else ()
