"""Formats the table of results, for a terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.results import Part, Report, Row, Series

Cells = tuple[str, ...]

HEADER: Cells = ("scenario", "what", "ours", "beside", "figure", "spread", "target", "")
NOT_MEASURED, ONE_ROUND = "not yet measured", "one round"
MET, NOT_MET = "met", "not met"
WITHIN = ", within the spread"
"""Behind a verdict: not every round had the same."""
_RULE: Cells = ("---",) * len(HEADER)
_RUN = "run"


def lines(part: Part) -> list[Cells]:
    """Return the cells of one scenario's rows."""
    if part.failure:
        return [(part.scenario, f"failed: {part.failure}", *[""] * 6)]
    return [_cells(row) for row in part.rows]


def plain(report: Report) -> str:
    """Return the whole table in aligned columns."""
    rows = [HEADER, *(line for part in report.parts for line in lines(part))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    aligned = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([aligned[0], "-" * len(aligned[0]), *aligned[1:]])


def markdown(
    rows: Mapping[str, Sequence[Cells]], scenarios: Sequence[str], marks: Mapping[str, str]
) -> str:
    """Return the table for the documentation, with a line for each scenario that is missing.

    A mark, by the scenario, tells of which run a row is.
    """
    all_rows = [(*HEADER, _RUN), (*_RULE, _RULE[0])]
    for name in scenarios:
        found = rows.get(name) or [(name, NOT_MEASURED, *[""] * 6)]
        all_rows += ((*cells, marks.get(name, "")) for cells in found)
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in all_rows
    )


def read(text: str) -> Iterator[Cells]:
    """Yield the cells of the figures that a table for the documentation has, without the mark."""
    for line in text.splitlines():
        cells = tuple(cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|"))
        cells = cells[: len(HEADER)]
        if len(cells) == len(HEADER) and cells not in (HEADER, _RULE) and cells[1] != NOT_MEASURED:
            yield cells


def _cells(row: Row) -> Cells:
    unit = "x" if row.beside else row.ours.unit
    low, high = row.spread
    single = len(row.ours.values) == 1
    return (
        row.scenario,
        row.what + (f" ({row.note})" if row.note else ""),
        _median(row.ours),
        f"{row.beside.name}: {_median(row.beside)}" if row.beside else "",
        f"{number(row.value)} {unit}",
        ONE_ROUND if single else f"{number(low)} to {number(high)}",
        _target(row),
        _verdict(row),
    )


def _verdict(row: Row) -> str:
    if row.met is None:
        return ""
    return (MET if row.met else NOT_MET) + (WITHIN if row.within_spread else "")


def _median(series: Series) -> str:
    return f"{number(series.median)} {series.unit}"


def _target(row: Row) -> str:
    if row.target is None:
        return ""
    return f"{'≥' if row.target.at_least else '≤'} {number(row.target.limit)}"


def number(value: float) -> str:
    """Return the number with its significant digits, such as 12,345, 12.3 and 0.123."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
