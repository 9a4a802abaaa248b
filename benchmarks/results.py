"""The results of a run: series over its rounds, rows with their targets, and their JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Series:
    """One figure, measured once in each round."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure that counts, because one disturbed round hardly moves it."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class Target:
    """The limit of a figure: the least or the most that it may be."""

    limit: float
    at_least: bool

    def is_met(self, value: float) -> bool:
        """Whether the figure is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit


def at_least(limit: float) -> Target:
    """Return a target that a figure meets from `limit` on."""
    return Target(limit, at_least=True)


def at_most(limit: float) -> Target:
    """Return a target that a figure meets up to `limit`."""
    return Target(limit, at_least=False)


@dataclass(frozen=True)
class Row:
    """One line of the table: our figure, or its ratio to a peer's figure, against a target."""

    scenario: str
    what: str
    ours: Series
    beside: Series | None = None
    target: Target | None = None
    note: str = ""
    paired: bool = False  # many short turns: the two of a turn had the same speed of the machine
    worst: bool = False  # the most of all rounds counts: what may never be more

    @property
    def value(self) -> float:
        """What is compared with the target: the ratio of the medians, or the median.

        Where it is `paired`, it is the median of the ratios of each turn.
        """
        if self.worst:
            return max(self.ours.values)
        if self.beside is None:
            return self.ours.median
        if self.paired:
            return statistics.median(self._ratios)
        return self.ours.median / self.beside.median if self.beside.median else float("inf")

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the most over the rounds, each ratio from figures of the same round.

        Where it is `paired`, the quartiles of the turns: of many turns some are disturbed.
        """
        values = self.ours.values if self.beside is None else self._ratios
        if self.paired and len(values) > 1:
            low, _, high = statistics.quantiles(values, n=4, method="inclusive")
            return low, high
        return min(values), max(values)

    @property
    def _ratios(self) -> Sequence[float]:
        assert self.beside is not None
        pairs = zip(self.ours.values, self.beside.values, strict=True)
        return [mine / other if other else float("inf") for mine, other in pairs]

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        return None if self.target is None else self.target.is_met(self.value)

    @property
    def within_spread(self) -> bool:
        """Whether some rounds met the target and some did not: another run may say otherwise."""
        if self.target is None or self.worst:
            return False
        return len({self.target.is_met(end) for end in self.spread}) > 1


@dataclass(frozen=True)
class Part:
    """The results of one scenario: rows and remarks, or the reason why it failed."""

    scenario: str
    rows: tuple[Row, ...] = ()
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0
    failure: str = ""


@dataclass(frozen=True)
class Report:
    """One run on one machine."""

    conditions: dict[str, Any]
    parts: list[Part] = field(default_factory=list)

    def part(self, scenario: str) -> Part | None:
        """Return this scenario's results, or None if it was not run."""
        return next((part for part in self.parts if part.scenario == scenario), None)

    def save(self, path: Path) -> None:
        """Write the report as JSON, with ratios and verdicts beside the figures they came from."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = asdict(self)
        for part, written in zip(self.parts, document["parts"], strict=True):
            for row, entry in zip(part.rows, written["rows"], strict=True):
                entry |= {
                    "value": row.value,
                    "spread": row.spread,
                    "met": row.met,
                    "within_spread": row.within_spread,
                }
        path.write_text(json.dumps(document, indent=2) + "\n")


def load(path: Path) -> Report:
    """Read a report; ratios and verdicts are computed again."""
    document = json.loads(path.read_text())
    return Report(document["conditions"], [_part(part) for part in document["parts"]])


def _part(document: dict[str, Any]) -> Part:
    return Part(
        scenario=document["scenario"],
        rows=tuple(map(_row, document["rows"])),
        remarks=tuple(document["remarks"]),
        seconds=document["seconds"],
        failure=document["failure"],
    )


def _row(document: dict[str, Any]) -> Row:
    return Row(
        scenario=document["scenario"],
        what=document["what"],
        ours=_series(document["ours"]),
        beside=_series(document["beside"]) if document["beside"] else None,
        target=Target(**document["target"]) if document["target"] else None,
        note=document["note"],
        paired=document["paired"],
        worst=document.get("worst", False),
    )


def _series(document: dict[str, Any]) -> Series:
    return Series(document["name"], document["unit"], tuple(document["values"]))
