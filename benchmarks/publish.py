"""`python -m benchmarks.publish [.bench/bench.json …]`: put runs into docs/performance.md.

The text between the two marks is written anew from the JSON, and so is the plot beside the page.
Without a file every scenario is marked as not yet measured. Figures are never typed by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks import plot, table
from benchmarks.results import Report, load
from benchmarks.scenarios import SCENARIOS

PAGE = Path("docs/performance.md")
PLOT = Path("docs/performance.svg")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
def main(paths: tuple[Path, ...]) -> None:
    """Render the figures of a run, or of runs of different scenarios, into the documentation."""
    reports = [load(path) for path in paths]
    if any(report.conditions["scale"] != 1 for report in reports):
        raise click.ClickException("only a run at full size is a measurement")
    if reports:
        PLOT.write_text(plot.svg(_joined(reports)))
    PAGE.write_text(rendered(PAGE.read_text(), reports))


def rendered(page: str, reports: Sequence[Report]) -> str:
    """Return the page with the reports' figures between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{figures(reports)}\n\n{END}{after}"


def figures(reports: Sequence[Report]) -> str:
    """Return the conditions, the table, the plot and the remarks of the runs."""
    if not reports:
        cells = table.markdown(None, list(SCENARIOS))
        return f"No run at full size has been published yet.\n\n{cells}"
    report = _joined(reports)
    cells = table.markdown(report, list(SCENARIOS))
    picture = f"![Each figure against its target]({PLOT.name})"
    return "\n\n".join([*map(_conditions, reports), cells, picture, _remarks(report)])


def _joined(reports: Sequence[Report]) -> Report:
    """Return all runs as one report; of a scenario that was run twice the last run counts."""
    parts = {part.scenario: part for report in reports for part in report.parts}
    return Report(reports[-1].conditions, list(parts.values()))


def _conditions(report: Report) -> str:
    said = report.conditions
    packages = ", ".join(f"{name} {number}" for name, number in said["packages"].items())
    changed = " with uncommitted changes" if said["changed"] else ""
    scenarios = ", ".join(part.scenario for part in report.parts)
    return (
        f"Measured {said['started']} at commit `{said['commit']}`{changed}: {said['rounds']} rounds"
        f" of {scenarios} on {said['cores']} of {said['cores_of_machine']} cores"
        f" ({said['processor']}, {said['memory_gb']} GB, {said['system']}), Python"
        f" {said['python']}, {packages}. The load before the run was {said['load_before']:.2f}."
    )


def _remarks(report: Report) -> str:
    lines = [f"- {part.scenario}: {text}" for part in report.parts for text in part.remarks]
    return "\n".join(["What the scenarios said beside their figures:", "", *lines])


if __name__ == "__main__":
    main()
