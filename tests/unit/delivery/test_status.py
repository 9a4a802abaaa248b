"""The table of states: closed, consistent, and the same in the documentation."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.status import (
    ARROWS,
    FINISHED,
    LEASED,
    Status,
    end_status,
    sources,
)

TRANSITIONS = {
    status: frozenset(arrow.target for arrow in ARROWS if arrow.source is status)
    for status in Status
}


def test_the_statuses_are_stored_as_the_words_that_users_rely_on() -> None:
    assert [status.value for status in Status] == [
        "pending", "claimed", "sending", "sent", "failed", "unknown", "cancelled", "expired",
        "suppressed",
    ]  # fmt: skip


def test_no_arrow_stands_twice_nor_leads_to_itself() -> None:
    steps = [(arrow.source, arrow.target) for arrow in ARROWS]
    assert len(steps) == len(set(steps))
    assert all(source is not target for source, target in steps)
    assert all(arrow.when for arrow in ARROWS)


def test_every_status_is_reached_from_pending() -> None:
    reached = {Status.PENDING}
    while more := {b for a in reached for b in TRANSITIONS[a]} - reached:
        reached |= more
    assert reached == set(Status)


def test_every_email_can_end() -> None:
    for status in set(Status) - FINISHED:
        assert TRANSITIONS[status] & FINISHED or status is Status.PENDING


def test_terminal_statuses_have_no_way_out_but_a_person_may_retry_a_failed_email() -> None:
    assert {status for status, targets in TRANSITIONS.items() if not targets} == {
        Status.SENT, Status.CANCELLED, Status.EXPIRED, Status.SUPPRESSED,
    }  # fmt: skip
    assert TRANSITIONS[Status.FAILED] == {Status.PENDING}


def test_what_may_be_purged_is_finished_and_an_email_in_doubt_is_not() -> None:
    assert set(Status) - LEASED - {Status.PENDING, Status.UNKNOWN} == FINISHED


def test_only_claimed_and_sending_are_leased() -> None:
    assert {Status.CLAIMED, Status.SENDING} == LEASED


def test_an_email_is_sent_only_through_a_claim_and_a_window() -> None:
    assert sources(Status.CLAIMED) == (Status.PENDING, Status.SENDING)
    assert sources(Status.SENDING) == (Status.CLAIMED,)


def test_a_window_that_is_open_can_no_longer_be_withdrawn_or_expire() -> None:
    assert not TRANSITIONS[Status.SENDING] & {
        Status.CANCELLED, Status.EXPIRED, Status.SUPPRESSED,
    }  # fmt: skip


def test_an_email_in_doubt_is_resolved_by_the_three_words_of_a_person() -> None:
    assert TRANSITIONS[Status.UNKNOWN] == {Status.SENT, Status.PENDING, Status.FAILED}


def test_cancel_finds_what_is_pending_or_claimed() -> None:
    assert sources(Status.CANCELLED) == (Status.PENDING, Status.CLAIMED)


@pytest.mark.parametrize("target", Status)
def test_sources_are_the_statuses_with_an_arrow_to_the_target(target: Status) -> None:
    assert set(sources(target)) == {s for s in Status if target in TRANSITIONS[s]}


@pytest.mark.parametrize("target", sorted(FINISHED | {Status.UNKNOWN}))
def test_an_email_in_doubt_ends_unknown_and_another_with_a_copy_sent(target: Status) -> None:
    assert end_status(target, in_doubt=False, has_copy=False) is target
    assert end_status(target, in_doubt=False, has_copy=True) is Status.SENT
    for has_copy in (False, True):
        assert end_status(target, in_doubt=True, has_copy=has_copy) is Status.UNKNOWN


def test_wherever_an_end_can_be_told_doubt_has_an_arrow_too() -> None:
    """`end_status` may turn each of these ends into `unknown`, so that step must be legal."""
    for source in (Status.PENDING, Status.CLAIMED, Status.SENDING):
        if TRANSITIONS[source] & FINISHED - {Status.SENT}:
            assert Status.UNKNOWN in TRANSITIONS[source]
