"""What holds whatever a server says and whatever was known: the promise of doubt and of charge."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.config.settings import OnUnknown
from outbox.domain.delivery.outcome import (
    MAX_UNKNOWN,
    EmailState,
    Outcome,
    decide_outcome,
    sent_outcome,
)
from outbox.domain.delivery.outcome import RecipientStatus as R
from outbox.domain.delivery.status import ARROWS, FINISHED, Status
from outbox.domain.delivery.transaction import Phase, RecipientResult, Reply, Transaction, Verdict
from outbox.domain.scheduling.backoff import delay

pytestmark = pytest.mark.over_and_over


V = Verdict
REPLY = Reply(code=0)
# Where the whole was judged, what a recipient may carry besides: see
# `smtp.transaction_result.transaction_from`.
OWN = (V.FAIL, V.RETRY)
AFTER_SENDING = {arrow.target for arrow in ARROWS if arrow.source is Status.SENDING}


@st.composite
def cases(draw: st.DrawFn) -> tuple[EmailState, Transaction, float]:
    whole = draw(st.sampled_from([v for v in V if v is not V.NEXT]))
    addresses = "abcd"[: draw(st.integers(1, 4))]
    verdicts = [whole] * len(addresses)
    if whole in (V.SUSPECT, V.UNSENT):
        for place in range(1, len(addresses)):
            verdicts[place] = draw(st.sampled_from((whole, V.FAIL)))
    elif whole is not V.HALT:
        late = (V.NEXT,) if whole is not V.FAIL else (V.NEXT, V.FAIL)
        for place in range(1, len(addresses)):
            verdicts[place] = draw(st.sampled_from((whole, *OWN, *late)))
        if whole is V.FAIL and V.RETRY in verdicts:  # `all_refused` calls that a RETRY
            whole = V.RETRY
    # "s" is suppressed since: nothing is sent to it now.
    doubtful = frozenset(draw(st.sets(st.sampled_from(addresses + "s"))))
    settled = draw(st.frozensets(st.sampled_from([R.SENT, R.FAILED, R.SUPPRESSED, R.UNKNOWN])))
    is_doubtful = bool(doubtful) or R.UNKNOWN in settled
    known = EmailState(
        attempts=draw(st.integers(0, 15)),
        max_attempts=draw(st.integers(1, 12)),
        crashes=draw(st.integers(0, 6)),
        max_crashes=draw(st.integers(3, 6)),
        unknown_count=draw(st.integers(1, MAX_UNKNOWN - 1)) if is_doubtful else 0,
        on_unknown=draw(st.sampled_from(OnUnknown)),
        seconds_left=draw(st.floats(-10, 10_000) | st.just(float("inf"))),
        doubtful=doubtful,
        settled=settled,
    )
    recipients = tuple(
        RecipientResult(address=address, verdict=verdict, reply=REPLY)
        for address, verdict in zip(addresses, verdicts, strict=True)
    )
    after = draw(st.none() | st.floats(0, 86_400))
    # At RCPT all whom the transaction named were refused or put off.
    phase = Phase.RCPT if whole in OWN and draw(st.booleans()) else Phase.DOT
    result = Transaction(
        verdict=whole, phase=phase, reply=REPLY, recipients=recipients, retry_after=after
    )
    return known, result, draw(st.floats(0, 1))


def judged(case: tuple[EmailState, Transaction, float]) -> Outcome:
    known, result, chance = case
    return decide_outcome(known, result, random=lambda: chance)


def doubt_after(known: EmailState, found: Outcome) -> set[str]:
    """Return who is in doubt once this is recorded: their rows are in the table until then."""
    outcomes = {address: status for address, status, _ in found.recipients}
    before = dict.fromkeys(known.doubtful, R.UNKNOWN)
    if R.UNKNOWN in known.settled:
        before["refused in an earlier transaction"] = R.UNKNOWN
    return {a for a, status in {**before, **outcomes}.items() if status is R.UNKNOWN}


NOBODY = (V.HALT, V.SUSPECT, V.LACKING, V.UNSENT)
"""Verdicts that judge no recipient."""


@pytest.mark.long
@given(cases())
def test_an_email_with_unresolved_doubt_ends_unknown(
    case: tuple[EmailState, Transaction, float],
) -> None:
    found = judged(case)
    if doubt_after(case[0], found) and found.status in FINISHED | {Status.UNKNOWN}:
        assert found.status is Status.UNKNOWN
        assert found.unknown_total > 0


@given(cases())
def test_a_single_recipient_who_has_the_email_needs_no_facts(
    case: tuple[EmailState, Transaction, float],
) -> None:
    known, result, _ = case
    only = replace(result.recipients[0], verdict=V.SENT)
    accepted = replace(result, verdict=V.SENT, recipients=(only,))
    alone = replace(known, doubtful=known.doubtful & {only.address}, settled=frozenset())
    assert sent_outcome(accepted) == judged((alone, accepted, 0.5))


@given(cases())
def test_doubts_is_zero_if_and_only_if_nobody_is_in_doubt(
    case: tuple[EmailState, Transaction, float],
) -> None:
    found = judged(case)
    if found.status in (Status.PENDING, Status.FAILED, Status.SENDING):
        assert (found.unknown_total > 0) is bool(doubt_after(case[0], found))


@given(cases())
def test_a_recipient_who_was_accepted_never_comes_back(
    case: tuple[EmailState, Transaction, float],
) -> None:
    known, result, _ = case
    if result.verdict in NOBODY:
        return
    outcomes = {address: status for address, status, _ in judged(case).recipients}
    for recipient in result.recipients:
        if recipient.verdict is V.SENT:
            assert outcomes[recipient.address] is R.SENT
        elif recipient.verdict is V.UNKNOWN:
            assert outcomes[recipient.address] is R.UNKNOWN
        else:
            assert outcomes[recipient.address] is not R.SENT
            if recipient.address in known.doubtful:
                assert outcomes[recipient.address] is R.UNKNOWN


@given(cases())
def test_an_attempt_is_charged_for_a_verdict_on_the_email_and_for_nothing_else(
    case: tuple[EmailState, Transaction, float],
) -> None:
    known, result, _ = case
    found = judged(case)
    judges = result.verdict not in NOBODY
    assert found.attempts_added == int(judges and not found.again)
    is_shorter = bool(result.refused_early(known.doubtful))
    assert found.crashes_added == int(result.verdict is V.UNSENT and not is_shorter)


@given(cases())
def test_an_email_that_was_neither_judged_nor_charged_waits_for_the_others_or_goes_to_fewer(
    case: tuple[EmailState, Transaction, float],
) -> None:
    """So it ends: by its lifetime, by its crashes, or because nobody is left."""
    known, result, _ = case
    found = judged(case)
    if result.verdict in (V.SUSPECT, V.UNSENT) and found.status is Status.PENDING:
        ends = {address for address, status, _ in found.recipients if status is R.FAILED}
        assert ends == {one.address for one in result.refused_early(known.doubtful)}
        assert ends or found.crashes_added or found.delay >= 5


@given(cases())
def test_an_outage_changes_nothing_of_an_email(case: tuple[EmailState, Transaction, float]) -> None:
    known, result, chance = case
    halted = replace(result, verdict=V.HALT)
    found = decide_outcome(known, halted, random=lambda: chance)
    assert found == Outcome(status=Status.PENDING, reply=REPLY, unknown_total=known.unknown_count)


@given(cases())
def test_doubt_ends_at_the_third_at_once_under_hold_and_where_nothing_is_left_to_try(
    case: tuple[EmailState, Transaction, float],
) -> None:
    known, result, chance = case
    found = judged(case)
    assert found.unknown_total <= MAX_UNKNOWN
    if result.verdict is V.UNKNOWN:
        assert found.unknown_total == known.unknown_count + 1
        held = known.on_unknown is OnUnknown.HOLD or found.unknown_total == MAX_UNKNOWN
        wait = delay(known.attempts + 1, random=lambda: chance)
        used_up = known.attempts + 1 >= known.max_attempts or wait >= known.seconds_left
        assert found.status is (Status.UNKNOWN if held or used_up else Status.PENDING)


@given(cases())
def test_an_email_that_comes_back_has_somebody_to_go_to_and_a_wait(
    case: tuple[EmailState, Transaction, float],
) -> None:
    found = judged(case)
    assert isfinite(found.delay)
    if found.status is Status.PENDING and found.recipients:
        assert found.delay >= 1
        left = {status for _, status, _ in found.recipients}
        assert left & {R.PENDING, R.UNKNOWN}
    elif found.status is not Status.PENDING:
        assert found.delay == 0
    assert found.again is (found.status is Status.SENDING)


@given(cases())
def test_an_email_that_failed_or_was_sent_has_nobody_waiting(
    case: tuple[EmailState, Transaction, float],
) -> None:
    found = judged(case)
    if found.status in (Status.SENT, Status.FAILED):
        assert {status for _, status, _ in found.recipients} <= {R.SENT, R.FAILED}


@given(cases())
def test_every_step_is_in_the_table_of_transitions(
    case: tuple[EmailState, Transaction, float],
) -> None:
    found = judged(case)
    assert found.again or found.status in AFTER_SENDING


@given(cases())
def test_used_up_attempts_or_deliveries_end_an_email(
    case: tuple[EmailState, Transaction, float],
) -> None:
    known, result, _ = case
    found = judged(case)
    if found.status is Status.PENDING and result.verdict in (V.RETRY, V.FAIL, V.SENT):
        assert known.attempts + 1 < known.max_attempts
        assert found.delay < known.seconds_left
    if found.status is Status.PENDING and found.crashes_added:
        assert known.crashes + 1 < known.max_crashes
