"""What a run has measured: series over its rounds, rows with their targets; and their JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Series:
    """One figure, measured once a round."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure that counts: one disturbed round does not move it."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class Target:
    """What the figure has to be: at least or at most so much."""

    limit: float
    at_least: bool

    def is_met(self, value: float) -> bool:
        """Whether the figure is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit


def at_least(limit: float) -> Target:
    """Return the target that more is better from here on."""
    return Target(limit, at_least=True)


def at_most(limit: float) -> Target:
    """Return the target that less is better up to here."""
    return Target(limit, at_least=False)


@dataclass(frozen=True)
class Row:
    """One line of the table: our figure, perhaps beside another's; then their ratio is judged."""

    scenario: str
    what: str
    ours: Series
    beside: Series | None = None
    target: Target | None = None
    note: str = ""

    @property
    def value(self) -> float:
        """What is held against the target: the ratio of the medians, or the median."""
        if self.beside is None:
            return self.ours.median
        return self.ours.median / self.beside.median if self.beside.median else float("inf")

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the most over the rounds, each ratio from figures of the same round."""
        values: Sequence[float] = self.ours.values
        if self.beside is not None:
            pairs = zip(self.ours.values, self.beside.values, strict=True)
            values = [mine / other if other else float("inf") for mine, other in pairs]
        return min(values), max(values)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.target is None else self.target.is_met(self.value)


@dataclass(frozen=True)
class Part:
    """What one scenario has brought: rows and remarks, or the reason why it brought none."""

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
        """Return what this scenario has brought, if it was run."""
        return next((part for part in self.parts if part.scenario == scenario), None)

    def save(self, path: Path) -> None:
        """Write it as JSON; ratios and verdicts stand beside the figures that they came from."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = asdict(self)
        for part, written in zip(self.parts, document["parts"], strict=True):
            for row, entry in zip(part.rows, written["rows"], strict=True):
                entry |= {"value": row.value, "spread": row.spread, "met": row.met}
        path.write_text(json.dumps(document, indent=2) + "\n")


def load(path: Path) -> Report:
    """Read a report; what was derived is derived again."""
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
    )


def _series(document: dict[str, Any]) -> Series:
    return Series(document["name"], document["unit"], tuple(document["values"]))
