"""The figures of a period: points without gaps, and failures with the most frequent first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from outbox.domain.delivery.transaction import Verdict
from outbox.domain.errors import InvalidMessage
from outbox.domain.figures.figures import TimeToAccepted, figures_of
from outbox.domain.figures.histogram import bin_of
from outbox.domain.figures.spans import Period, Range, minute_of

NOW = datetime(2026, 1, 1, 12, 30, 15, tzinfo=UTC)
MINUTE = minute_of(NOW)


@pytest.mark.parametrize(
    ("period", "first", "step"),
    [
        (Period.HOUR, datetime(2026, 1, 1, 11, 31, tzinfo=UTC), timedelta(minutes=1)),
        (Period.DAY, datetime(2025, 12, 31, 13, tzinfo=UTC), timedelta(hours=1)),
        (Period.WEEK, datetime(2025, 12, 25, 13, tzinfo=UTC), timedelta(hours=1)),
    ],
)
def test_the_points_of_a_period_have_no_gaps_and_end_now(
    period: Period, first: datetime, step: timedelta
) -> None:
    found = figures_of(Range(period=period, until=NOW), [])
    moments = [point.moment for point in found.points]
    assert moments == [first + step * number for number in range(period.points)]
    assert moments[-1] <= NOW < moments[-1] + step
    assert (found.since, found.until) == (first, NOW)
    assert (found.verdicts, found.accepted_a_second) == ({}, 0.0)
    assert found.accepted_in == TimeToAccepted(p50=None, p95=None, p99=None)


def test_each_point_has_its_own_counts_and_the_whole_has_their_sums() -> None:
    second, minute = bin_of(900_000), bin_of(55_000_000)
    counts = [
        (MINUTE, "sent", second, "", 0, 3),
        (MINUTE - 1, "sent", minute, "", 0, 1),
        (MINUTE - 1, "retry", -1, "mx", 450, 2),
        (MINUTE - 60, "sent", second, "", 0, 9),  # before the first point
    ]
    found = figures_of(Range(period=Period.HOUR, until=NOW), counts)
    before, now = found.points[-2:]
    assert before.verdicts == {Verdict.SENT: 1, Verdict.RETRY: 2}
    assert now.verdicts == {Verdict.SENT: 3}
    assert found.verdicts == {Verdict.SENT: 4, Verdict.RETRY: 2}
    assert now.accepted_in.p99 is not None
    assert now.accepted_in.p99 < 1.0
    assert found.accepted_in.p99 is not None
    assert found.accepted_in.p99 > 45.0
    assert found.accepted_a_second == 4 / (59 * 60 + 15)


def test_failures_come_by_their_number_and_none_that_was_taken_back() -> None:
    counts = [
        (MINUTE, "retry", -1, "a", 450, 1),
        (MINUTE - 1, "retry", -1, "a", 450, 1),
        (MINUTE, "fail", -1, "b", 550, 7),
        (MINUTE, "fail", -1, "a", 550, -1),
        (MINUTE, "sent", 3, "", 0, 9),
    ]
    found = figures_of(Range(period=Period.HOUR, until=NOW), counts).failures
    assert [(one.server, one.verdict, one.code, one.attempts) for one in found] == [
        ("b", Verdict.FAIL, 550, 7),
        ("a", Verdict.RETRY, 450, 2),
    ]


@pytest.mark.parametrize("wrong", ["month", "", None, 3600])
def test_another_period_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidMessage, match="last: must be one of hour, day, week"):
        Period.of(wrong)
