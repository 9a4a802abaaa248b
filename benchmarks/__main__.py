"""`make bench`: run the scenarios, print the table, and write it as JSON and as a plot."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence

import click
import pytest

from benchmarks import conditions, plot, servers, table
from benchmarks.bench import Bench
from benchmarks.results import Part, Report
from benchmarks.scenarios import ALL, SCENARIOS

_FAILURES = (Exception, pytest.skip.Exception, pytest.fail.Exception)
"""The tests' servers raise the last two where a program is missing: the last one in CI."""


@click.command()
@click.option("--only", default="", help="Scenarios to run, with commas between them.")
@click.option("--rounds", default=5, show_default=True, help="How often each is measured.")
@click.option("--scale", default=1.0, show_default=True, help="Part of each size, for quick runs.")
@click.option("--cores", type=int, help="The number of cores that all processes may use.")
def main(only: str, rounds: int, scale: float, cores: int | None) -> None:
    """Measure this project beside its peers."""
    chosen = [name for name in only.split(",") if name] or list(SCENARIOS)
    unknown = sorted(set(chosen) - ALL.keys())
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: choose from {', '.join(ALL)}")
    servers.check()
    conditions.pin(cores)
    report = Report(conditions.conditions(rounds=rounds, scale=scale))
    if doubt := conditions.disturbed(report.conditions):
        click.echo(f"The load is {report.conditions['load_before']:.2f}. {doubt}")
    path = servers.OUTPUT / f"{_name(chosen if only else (), scale)}.json"
    for name in chosen:
        report.parts.append(_part(name, rounds, scale))
        report.save(path)  # a run takes an hour: if it breaks, what it has measured is kept
    rows = [row for part in report.parts for row in table.lines(part)]
    path.with_suffix(".svg").write_text(
        plot.svg(f"Figures against their targets, at {scale:g} of the size", rows)
    )
    click.echo(f"\n{table.plain(report)}\n\n{path} and {path.with_suffix('.svg')} are written.")
    if scale != 1:
        click.echo(f"At {scale:g} of the sizes this only shows that it runs: no figure counts.")
    if any(part.failure for part in report.parts):
        raise SystemExit(1)


def _name(chosen: Sequence[str], scale: float) -> str:
    """Return the name of the files; what measures nothing replaces no measurement."""
    return "-".join(["bench" if scale == 1 else "small", *chosen])


def _part(name: str, rounds: int, scale: float) -> Part:
    """Run one scenario; if it fails, return the failure, so that the others still run."""
    click.echo(f"{name}:")
    begun, stolen = time.monotonic(), conditions.Stolen()
    try:
        with Bench(rounds=rounds, scale=scale) as bench:
            rows = ALL[name](bench)
            if said := stolen.remark():
                bench.remark(said)
            remarks = tuple(bench.remarks)
    except _FAILURES as error:
        traceback.print_exc()
        return Part(name, seconds=_since(begun), failure=f"{type(error).__name__}: {error}"[:300])
    return Part(name, tuple(rows), remarks, _since(begun))


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 1)


if __name__ == "__main__":
    main()
