"""Over which spans of time attempts are counted, and which of them a chart is made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from ..errors import InvalidMessage

MINUTE: Final = 60
HOUR: Final = 3600
TOTAL: Final = 0
"""Seconds of the spans that the table has; 0 stands for all time."""

KEPT: Final = {MINUTE: 2 * 86_400, HOUR: 400 * 86_400}
"""Seconds for which the purge keeps the counts of a span. It keeps the totals for ever."""


class Period(StrEnum):
    """How far figures look back."""

    HOUR = "hour"  # in minutes
    DAY = "day"  # in hours
    WEEK = "week"  # in hours

    @classmethod
    def of(cls, value: object) -> Period:
        """Read a period or its name, or raise InvalidMessage."""
        if isinstance(value, str) and value in set(cls):
            return cls(value)
        raise InvalidMessage("last", f"must be one of {', '.join(cls)}")

    @property
    def span(self) -> int:
        """The seconds of one point of its chart."""
        return MINUTE if self is Period.HOUR else HOUR

    @property
    def points(self) -> int:
        """The number of points; the last one is not over yet."""
        return {Period.HOUR: 60, Period.DAY: 24, Period.WEEK: 168}[self]


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """The points of a period, which end with the one that `until` is in."""

    period: Period
    until: datetime

    @property
    def minutes(self) -> range:
        """The first minute of each point, in minutes since 1970."""
        step = self.period.span // MINUTE
        last = minute_of(self.until) // step * step
        return range(last - step * (self.period.points - 1), last + 1, step)


def minute_of(moment: datetime) -> int:
    """Return the minute that this moment is in, in whole minutes since 1970 in UTC."""
    return int(moment.timestamp() // MINUTE)


def moment_of(minute: int) -> datetime:
    """Return the beginning of a minute."""
    return datetime.fromtimestamp(minute * MINUTE, UTC)
