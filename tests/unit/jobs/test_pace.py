"""A job's steps grow slowly while they are quick, and shrink at once when one is slow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from outbox.domain.jobs.pace import LEAST, MOST, TARGET, next_size, part_done
from outbox.domain.search.place import Place

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("size", "took", "following"),
    [
        (200, 0.0, 250),
        (200, TARGET * 1.5, 200),
        (200, TARGET * 2.1, 100),
        (MOST, 0.0, MOST),
        (LEAST, 9.9, LEAST),
    ],
)
def test_the_next_step(size: int, took: float, following: int) -> None:
    assert next_size(size, took) == following


def at(minutes: int, email_id: int = 1) -> Place:
    return Place(email_id, NOON + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("first", "place", "last", "told"),
    [
        (Place(110), Place(60), Place(10), 0.5),
        (Place(110), at(0, 111), Place(10), 0.0),  # before its first step
        (Place(10), Place(10), Place(10), 0.0),
        (at(100), at(75), at(0), 0.25),
        (at(100), at(-9), at(0), 1.0),
        (at(0), at(0), at(0), 0.0),
    ],
)
def test_how_far_it_is(first: Place, place: Place, last: Place, told: float) -> None:
    assert part_done(first, place, last) == told
