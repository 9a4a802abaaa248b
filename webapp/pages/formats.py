"""Filters by which templates print money, times and counts."""

from __future__ import annotations

from datetime import UTC, datetime

from flask import Flask


def register(app: Flask) -> None:
    """Add the filters to the app's templates."""
    app.add_template_filter(euros)
    app.add_template_filter(clock)
    app.add_template_filter(grouped)
    app.add_template_filter(counted)


def euros(cents: int) -> str:
    """Print cents as euros: `€12.50`."""
    return f"€{cents // 100:,}.{cents % 100:02}"


def clock(moment: datetime) -> str:
    """Print a time in UTC, to the second. SQLite returns naive times, which are in UTC, too."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%d %b %Y, %H:%M:%S UTC")


def grouped(number: int) -> str:
    """Print a count with commas between thousands: `20,000`."""
    return f"{number:,}"


def counted(number: int, one: str, several: str = "") -> str:
    """Print a count with its noun: `1 email`, `2,000 emails`."""
    return f"{grouped(number)} {one if number == 1 else several or one + 's'}"
