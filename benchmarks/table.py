"""Formats the table of results, for a terminal and for the documentation."""

from __future__ import annotations

from benchmarks.results import Part, Report, Row, Series

HEADER = ("scenario", "what", "ours", "beside", "figure", "spread", "target", "")
NOT_MEASURED = "not yet measured"


def lines(part: Part) -> list[tuple[str, ...]]:
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


def markdown(report: Report | None, scenarios: list[str]) -> str:
    """Return the table for the documentation, with a line for each scenario that is missing.

    Only a run at full size is a measurement.
    """
    rows = [HEADER, ("---",) * len(HEADER)]
    for name in scenarios:
        part = report.part(name) if report and report.conditions["scale"] == 1 else None
        rows += lines(part) if part else [(name, NOT_MEASURED, *[""] * 6)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)


def _cells(row: Row) -> tuple[str, ...]:
    unit = "x" if row.beside else row.ours.unit
    low, high = row.spread
    single = len(row.ours.values) == 1
    return (
        row.scenario,
        row.what + (f" ({row.note})" if row.note else ""),
        _median(row.ours),
        f"{row.beside.name}: {_median(row.beside)}" if row.beside else "",
        f"{number(row.value)} {unit}",
        "one round" if single else f"{number(low)} to {number(high)}",
        _target(row),
        {True: "met", False: "not met", None: ""}[row.met],
    )


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
