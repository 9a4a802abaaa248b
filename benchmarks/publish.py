"""`python -m benchmarks.publish [.bench/bench.json]`: put a run into docs/performance.md.

What stands between the two marks is written anew from the JSON, and the plot beside it; without a
file every scenario is marked as not yet measured. Figures are never typed by hand.
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks import plot, table
from benchmarks.results import Report, load
from benchmarks.scenarios import SCENARIOS

PAGE = Path("docs/performance.md")
PLOT = Path("docs/performance.svg")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


@click.command()
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
def main(path: Path | None) -> None:
    """Render the figures of one run into the documentation."""
    report = load(path) if path else None
    if report and report.conditions["scale"] != 1:
        raise click.ClickException("only a run at full size is a measurement")
    if report:
        PLOT.write_text(plot.svg(report))
    PAGE.write_text(rendered(PAGE.read_text(), report))


def rendered(page: str, report: Report | None) -> str:
    """Return the page with the report's figures between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{figures(report)}\n\n{END}{after}"


def figures(report: Report | None) -> str:
    """Return the conditions, the table, the plot and the remarks of a run."""
    cells = table.markdown(report, list(SCENARIOS))
    if report is None:
        return f"No run at full size has been published yet.\n\n{cells}"
    picture = f"![Each figure against its target]({PLOT.name})"
    return "\n\n".join([_conditions(report), cells, picture, _remarks(report)])


def _conditions(report: Report) -> str:
    said = report.conditions
    packages = ", ".join(f"{name} {number}" for name, number in said["packages"].items())
    changed = " with uncommitted changes" if said["changed"] else ""
    return (
        f"Measured {said['started']} at commit `{said['commit']}`{changed}: {said['rounds']} rounds"
        f" on {said['cores']} of {said['cores_of_machine']} cores ({said['processor']},"
        f" {said['memory_gb']} GB, {said['system']}), Python {said['python']}, {packages}."
        f" The load before the run was {said['load_before']:.2f}."
    )


def _remarks(report: Report) -> str:
    lines = [f"- {part.scenario}: {text}" for part in report.parts for text in part.remarks]
    return "\n".join(["What the scenarios said beside their figures:", "", *lines])


if __name__ == "__main__":
    main()
