"""Two clocks that differ are told, and never the time that the question takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from outbox.store.queries.clock_skew import seconds_ahead, skew_warnings


class At:
    """A database whose clock stands still."""

    def __init__(self, seconds: float) -> None:
        self.moment = datetime.fromtimestamp(seconds, UTC)

    def read(self, _: object) -> datetime:
        return self.moment


@pytest.mark.parametrize(
    ("theirs", "asked", "answered", "ahead"),
    [
        (1000.0, 1000.0, 1000.0, 0.0),
        (1000.0, 990.0, 1010.0, 0.0),
        (1000.0, 1007.0, 1009.0, 7.0),
        (1000.0, 990.0, 993.0, -7.0),
    ],
)
def test_only_what_is_certain_counts(
    theirs: float, asked: float, answered: float, ahead: float
) -> None:
    times = iter([asked, answered])
    database: Any = At(theirs)
    assert seconds_ahead(database, wall=lambda: next(times)) == ahead


@pytest.mark.parametrize(
    ("ahead", "told"),
    [(0.0, None), (4.9, None), (-4.9, None), (5.0, "5 s ahead of"), (-90.2, "90 s behind")],
)
def test_a_difference_of_some_seconds_is_told(ahead: float, told: str | None) -> None:
    lines = skew_warnings(ahead)
    assert len(lines) == (told is not None)
    assert told is None or told in lines[0]
