"""`python -m benchmarks.publish [.bench/bench.json …]`: put runs into docs/performance.md.

A run replaces the figures of its scenarios; those of the others stay, with the conditions of their
own run, whose letter stands in each row. A scenario that failed replaces nothing. The plot beside
the page is drawn from the same table. Figures are never typed by hand.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Self

import click

from benchmarks import plot, table
from benchmarks.conditions import disturbed
from benchmarks.results import Report, load
from benchmarks.scenarios import ALL
from benchmarks.table import Cells

PAGE = Path("docs/performance.md")
PLOT = Path("docs/performance.svg")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
_WIDTH = 120
_CLIENT = {"redis": "redis-py"}
"""What people call a package whose server has the same name."""

_REMARKS = "What the scenarios said beside their figures:"
_RUN = re.compile(r"(?:Run [A-Z]+: )?([Mm]easured .* rounds of )([a-z, ]+)( on .*)")


@dataclass(frozen=True, kw_only=True)
class Run:
    """The conditions of a run, and those of its scenarios whose figures are on the page."""

    scenarios: tuple[str, ...]
    before: str  # the text before their names, and the one behind
    after: str

    def told(self, mark: str) -> str:
        """Return the paragraph; the mark stands in the rows of the run, too."""
        return f"Run {mark}: {self.before}{', '.join(self.scenarios)}{self.after}"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What stands between the two marks."""

    runs: Sequence[Run] = ()
    rows: dict[str, list[Cells]] = field(default_factory=dict)
    remarks: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what was published before."""
        rows: dict[str, list[Cells]] = {}
        remarks: dict[str, list[str]] = {}
        blocks = [" ".join(block.split("\n")) for block in text.strip().split("\n\n")]
        for cells in table.read(text):
            rows.setdefault(cells[0], []).append(cells)
        for remark in re.findall(r"^- .*(?:\n  .*)*", text, flags=re.MULTILINE):
            scenario, _, said = " ".join(remark[2:].split()).partition(": ")
            remarks.setdefault(scenario, []).append(said)
        found = [match for block in blocks if (match := _RUN.fullmatch(block))]
        return cls(
            runs=_last_of_each([_read(match) for match in found]), rows=rows, remarks=remarks
        )

    def with_run(self, report: Report) -> Figures:
        """Return these figures with those of a run in the place of older ones.

        A scenario that failed measured nothing: what was measured before stays.
        """
        new = {part.scenario: part for part in report.parts if not part.failure}
        if not new:
            return self
        return Figures(
            runs=_last_of_each([*self.runs, _run(report, tuple(new))]),
            rows=self.rows | {name: table.lines(part) for name, part in new.items()},
            remarks=self.remarks | {name: list(part.remarks) for name, part in new.items()},
        )

    def __str__(self) -> str:
        marks = {
            name: _mark(place) for place, run in enumerate(self.runs) for name in run.scenarios
        }
        cells = table.markdown(self.rows, list(ALL), marks)
        if not self.runs:
            return f"No run at full size has been published yet.\n\n{cells}"
        picture = f"![Each figure against its target]({PLOT.name})"
        remarks = (f"- {name}: {said}" for name in ALL for said in self.remarks.get(name, ()))
        conditions = (_filled(run.told(_mark(place))) for place, run in enumerate(self.runs))
        told = [_REMARKS, "\n".join(map(_filled, remarks))]
        return "\n\n".join([*conditions, cells, picture, *told])


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
def main(paths: tuple[Path, ...]) -> None:
    """Render the figures of runs into the documentation, in the order of the runs."""
    reports = sorted(map(load, paths), key=lambda report: str(report.conditions["started"]))
    page, drawn = published(PAGE.read_text(), reports)
    PAGE.write_text(page)
    PLOT.write_text(drawn)


def published(page: str, reports: Iterable[Report]) -> tuple[str, str]:
    """Return the page with the reports' figures between the marks, and the plot of all figures.

    Raises ClickException for a run at a smaller size: that is no measurement.
    """
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    figures = Figures.read(old)
    for report in reports:
        if report.conditions["scale"] != 1:
            raise click.ClickException("only a run at full size is a measurement")
        figures = figures.with_run(report)
    rows = [row for name in ALL for row in figures.rows.get(name, ())]
    drawn = plot.svg("Figures against their targets", rows)
    return f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}", drawn


def _read(found: re.Match[str]) -> Run:
    before, scenarios, after = found.groups()
    return Run(
        scenarios=tuple(scenarios.split(", ")), before=before[0].lower() + before[1:], after=after
    )


def _last_of_each(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with each scenario in the last one alone: its rows are of that one."""
    kept: list[Run] = []
    seen: set[str] = set()
    for run in reversed(runs):
        left = tuple(name for name in run.scenarios if name not in seen)
        seen.update(left)
        if left:
            kept.insert(0, replace(run, scenarios=left))
    return kept


def _mark(place: int) -> str:
    """Return the letter of the first, the second … run."""
    return ascii_uppercase[place]


def _run(report: Report, scenarios: tuple[str, ...]) -> Run:
    said = report.conditions
    versions = said.get("servers", {}) | {
        _CLIENT.get(name, name): number for name, number in said["packages"].items()
    }
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    disk = f", data on {said['file_system']}" if "file_system" in said else ""
    changed = " with uncommitted changes" if said["changed"] else ""
    return Run(
        scenarios=scenarios,
        before=f"measured {said['started']} at commit `{said['commit']}`{changed}:"
        f" {said['rounds']} rounds of ",
        after=f" on {said['cores']} of {said['cores_of_machine']} cores"
        f" ({said['processor']}, {said['memory_gb']} GB, {said['system']}{disk}), Python"
        f" {said['python']}, {told}. The load before the run was {said['load_before']:.2f}."
        + (f" {doubt}" if (doubt := disturbed(said)) else ""),
    )


def _filled(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    main()
