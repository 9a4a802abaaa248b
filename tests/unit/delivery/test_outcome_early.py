"""What becomes of an email of which a recipient was refused before the server hung up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from outbox.domain.delivery.outcome import LOST_DELAY, SHORTER_DELAY, blamed
from outbox.domain.delivery.outcome import RecipientStatus as R
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Phase, Verdict
from tests.unit.delivery.test_outcome_table import facts, judge, states, transaction

V = Verdict
EARLY = pytest.mark.parametrize("whole", [V.SUSPECT, V.UNSENT])


@EARLY
@pytest.mark.parametrize("known", [{}, {"attempts": 11, "crashes": 4}])
def test_who_was_refused_before_the_server_hung_up_is_left_out_and_the_rest_is_not_charged(
    known: dict[str, Any], whole: Verdict
) -> None:
    found = judge(facts(**known), transaction(whole, V.FAIL, whole, whole=whole))
    assert (found.status, states(found)) == (Status.PENDING, "pending failed pending")
    assert (found.attempts_added, found.crashes_added) == (0, 0)
    assert (found.delay, found.again) == (SHORTER_DELAY, False)


@EARLY
def test_a_time_that_the_server_named_as_it_hung_up_is_kept(whole: Verdict) -> None:
    result = transaction(whole, V.FAIL, whole=whole, retry_after=300.0)
    assert judge(facts(), result).delay == 300


@EARLY
def test_where_the_server_hangs_up_and_the_lifetime_is_over_all_end(whole: Verdict) -> None:
    known = facts(seconds_left=SHORTER_DELAY, settled=frozenset({R.SENT}))
    found = judge(known, transaction(whole, V.FAIL, whole=whole))
    assert (found.status, states(found)) == (Status.SENT, "failed failed")


@pytest.mark.parametrize(
    ("whole", "delay", "crashes"), [(V.SUSPECT, 5.0, 0), (V.UNSENT, LOST_DELAY, 1)]
)
def test_who_is_in_doubt_and_refused_stays_so_it_makes_the_next_email_no_shorter(
    whole: Verdict, delay: float, crashes: int
) -> None:
    known = facts(unknown_count=1, doubtful=frozenset("b"))
    found = judge(known, transaction(whole, V.FAIL, whole=whole))
    assert (found.status, found.unknown_total, states(found)) == (Status.PENDING, 1, "")
    assert (found.delay, found.crashes_added) == (delay, crashes)
    both = judge(known, transaction(whole, V.FAIL, V.FAIL, whole, whole=whole))
    assert (both.unknown_total, states(both)) == (1, "pending unknown failed pending")


@pytest.mark.parametrize("phase", [Phase.RCPT, Phase.DATA])
def test_a_server_that_hangs_up_on_one_who_is_put_off_charges_the_others_no_crash(
    phase: Phase,
) -> None:
    cut = replace(transaction(V.UNSENT, V.UNSENT, mixed=True), phase=phase)
    found = judge(facts(attempts=11, crashes=4), cut)
    assert (found.status, found.attempts_added, found.crashes_added) == (Status.PENDING, 0, 0)
    assert (found.delay, states(found)) == (5.0, "")
    assert judge(facts(seconds_left=5.0), cut).status is Status.FAILED, "its lifetime ends it"


def test_a_content_that_is_lost_charges_a_crash_whomever_the_server_put_off_before() -> None:
    lost = replace(transaction(V.UNSENT, V.UNSENT, mixed=True), phase=Phase.BODY)
    assert judge(facts(), lost).crashes_added == 1


def test_who_was_refused_for_good_stays_refused_where_the_email_is_to_blame() -> None:
    result = blamed(transaction(V.SUSPECT, V.FAIL))
    assert [one.verdict for one in result.recipients] == [V.RETRY, V.FAIL]
