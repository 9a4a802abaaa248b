"""The newsletter's page has words for each state in which nothing moves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from outbox import BatchDetails, Priority, Progress, Status
from webapp.pages.newsletter_progress import _words


def batch(**changes: Any) -> BatchDetails:
    values: dict[str, Any] = {
        "priority": Priority.BULK, "lane": "", "emails": 380, "sending": 20, "worker": "host:1",
        "server": None, "claimed_at": datetime.now(UTC), "started_at": datetime.now(UTC),
        "lease_seconds": 25.0, "rescue_seconds": 55.0, "is_silent": False,
        "awaits_reply": False,
    }  # fmt: skip
    return BatchDetails(**values | changes)


def progress(*batches: BatchDetails, in_doubt: int = 0, **statuses: int) -> Progress:
    every = {status: statuses.get(status, 0) for status in Status}
    return Progress(statuses=every, in_doubt=in_doubt, next_due_seconds=0.0, batches=batches)


def test_a_lost_worker_is_told_with_the_seconds_to_the_rescue() -> None:
    lost = batch(is_silent=True, lease_seconds=12.0, rescue_seconds=42.0)
    headline, detail = _words(progress(lost, batch(), pending=500), done=False)
    assert "gone silent" in headline
    assert "It held 380 emails" in detail
    assert "20 were in an open window and may have left" in detail
    assert "360 had surely not left" in detail
    assert "in 42 s at the latest" in detail
    assert "slot is free" in detail
    late = batch(is_silent=True, lease_seconds=-1.0, rescue_seconds=29.0)
    assert "slot" not in _words(progress(late), done=False)[1]


def test_one_email_in_doubt_is_one() -> None:
    _, detail = _words(progress(batch(is_silent=True, emails=1, sending=1)), done=False)
    assert "1 email of this issue. 1 was in an open window" in detail
    assert "surely" not in detail


def test_batches_at_work_and_batches_that_nobody_took_differ() -> None:
    assert _words(progress(batch(), batch()), done=False) == (
        "2 batches are under way.",
        "Only the 40 in open windows could come into doubt now.",
    )
    assert "No worker" in _words(progress(batch(worker=None, started_at=None)), done=False)[0]


def test_the_end_tells_what_waits_for_a_person() -> None:
    assert _words(progress(sent=3), done=True) == (
        "All finished.",
        "Every email of this issue is sent.",
    )
    assert "1 unknown and 2 failed" in _words(progress(unknown=1, failed=2), done=True)[1]


def test_the_end_does_not_call_sent_what_was_not() -> None:
    everything = "Every email of this issue is sent."
    assert _words(progress(cancelled=3), done=True) == ("All finished.", "3 cancelled.")
    ended = progress(sent=1, cancelled=1000, expired=2, suppressed=3, unknown=4)
    assert _words(ended, done=True)[1] == (
        "1,000 cancelled, 2 expired and 3 suppressed. 4 unknown and 0 failed: a person decides."
    )
    removed = _words(progress(sent=1), done=True, removed=2)[1]
    assert (removed, everything in removed) == ("2 removed after they had ended.", False)
