"""Verdicts and facts: what becomes of an email, row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from outbox.domain.config.settings import OnUnknown
from outbox.domain.delivery.outcome import (
    LOST_DELAY,
    MAX_UNKNOWN,
    EmailState,
    Outcome,
    decide_outcome,
)
from outbox.domain.delivery.outcome import RecipientStatus as R
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Phase, RecipientResult, Reply, Transaction, Verdict

REPLY = Reply(code=250, text="whatever")
V = Verdict
RESEND, HOLD = OnUnknown.RESEND, OnUnknown.HOLD


def facts(**changes: Any) -> EmailState:
    given: dict[str, Any] = {
        "attempts": 0,
        "max_attempts": 12,
        "crashes": 0,
        "max_crashes": 5,
        "unknown_count": 0,
        "on_unknown": RESEND,
        "seconds_left": 100_000.0,
    }
    return EmailState(**{**given, **changes})


def transaction(*verdicts: Verdict, whole: Verdict | None = None, **changes: Any) -> Transaction:
    """One recipient for each verdict, named a, b, …; the whole is the first one's."""
    recipients = tuple(
        RecipientResult(address=chr(ord("a") + place), verdict=verdict, reply=REPLY)
        for place, verdict in enumerate(verdicts)
    )
    return Transaction(
        verdict=whole or verdicts[0],
        phase=Phase.DOT,
        reply=REPLY,
        recipients=recipients,
        **changes,
    )


def judge(known: EmailState, result: Transaction, chance: float = 1.0) -> Outcome:
    return decide_outcome(known, result, random=lambda: chance)


def states(outcome: Outcome) -> str:
    """Return the recipients' outcomes as one word each, in order."""
    return " ".join(status for _, status, _ in outcome.recipients)


# one recipient: facts, verdict -> status, attempts, crashes, unknown_count, delay
ONE = [
    ({}, V.SENT, Status.SENT, 1, 0, 0, 0),
    ({"attempts": 11}, V.SENT, Status.SENT, 1, 0, 0, 0),
    ({}, V.FAIL, Status.FAILED, 1, 0, 0, 0),
    ({}, V.RETRY, Status.PENDING, 1, 0, 0, 30),
    ({"attempts": 1}, V.RETRY, Status.PENDING, 1, 0, 0, 120),
    ({"attempts": 10}, V.RETRY, Status.PENDING, 1, 0, 0, 7200),
    ({"attempts": 11}, V.RETRY, Status.FAILED, 1, 0, 0, 0),
    ({"max_attempts": 1}, V.RETRY, Status.FAILED, 1, 0, 0, 0),
    ({"seconds_left": 30.0}, V.RETRY, Status.FAILED, 1, 0, 0, 0),
    ({"seconds_left": 31.0}, V.RETRY, Status.PENDING, 1, 0, 0, 30),
    ({"seconds_left": -1.0}, V.RETRY, Status.FAILED, 1, 0, 0, 0),
    ({"seconds_left": float("inf"), "attempts": 5}, V.RETRY, Status.PENDING, 1, 0, 0, 7200),
    ({}, V.HALT, Status.PENDING, 0, 0, 0, 0),
    ({"attempts": 11, "seconds_left": 0.0}, V.HALT, Status.PENDING, 0, 0, 0, 0),
    ({}, V.UNSENT, Status.PENDING, 0, 1, 0, LOST_DELAY),
    ({"crashes": 3}, V.UNSENT, Status.PENDING, 0, 1, 0, 4 * LOST_DELAY),
    ({"crashes": 4}, V.UNSENT, Status.FAILED, 0, 1, 0, 0),
    ({"crashes": 9}, V.UNSENT, Status.FAILED, 0, 1, 0, 0),
    ({"attempts": 11, "seconds_left": 0.0}, V.UNSENT, Status.PENDING, 0, 1, 0, LOST_DELAY),
    ({}, V.UNKNOWN, Status.PENDING, 1, 0, 1, 30),
    ({"attempts": 2}, V.UNKNOWN, Status.PENDING, 1, 0, 1, 600),
    ({"on_unknown": HOLD}, V.UNKNOWN, Status.UNKNOWN, 1, 0, 1, 0),
]


@pytest.mark.parametrize(
    ("known", "verdict", "status", "attempts", "crashes", "unknown_count", "delay"), ONE
)
def test_an_email_without_doubt_ends_as_the_table_says(
    known: dict[str, Any],
    verdict: Verdict,
    status: Status,
    attempts: int,
    crashes: int,
    unknown_count: int,
    delay: float,
) -> None:
    found = judge(facts(**known), transaction(verdict))
    assert (found.status, found.attempts_added, found.crashes_added) == (status, attempts, crashes)
    assert (found.unknown_total, found.delay, found.again) == (unknown_count, delay, False)
    assert found.reply is REPLY


# one recipient who is in doubt already: facts, verdict -> status, attempts, crashes, unknown_count
DOUBTFUL = [
    ({"unknown_count": 1}, V.SENT, Status.SENT, 1, 0, 0),
    ({"unknown_count": 2}, V.SENT, Status.SENT, 1, 0, 0),
    ({"unknown_count": 1}, V.FAIL, Status.UNKNOWN, 1, 0, 1),
    ({"unknown_count": 1}, V.RETRY, Status.PENDING, 1, 0, 1),
    ({"unknown_count": 2}, V.RETRY, Status.PENDING, 1, 0, 2),
    ({"unknown_count": 1, "attempts": 11}, V.RETRY, Status.UNKNOWN, 1, 0, 1),
    ({"unknown_count": 1, "seconds_left": 0.0}, V.RETRY, Status.UNKNOWN, 1, 0, 1),
    ({"unknown_count": 1}, V.HALT, Status.PENDING, 0, 0, 1),
    ({"unknown_count": 1}, V.UNSENT, Status.PENDING, 0, 1, 1),
    ({"unknown_count": 1, "crashes": 4}, V.UNSENT, Status.UNKNOWN, 0, 1, 1),
    ({"unknown_count": 1}, V.UNKNOWN, Status.PENDING, 1, 0, 2),
    ({"unknown_count": 2}, V.UNKNOWN, Status.UNKNOWN, 1, 0, 3),
    ({"unknown_count": 1, "on_unknown": HOLD}, V.UNKNOWN, Status.UNKNOWN, 1, 0, 2),
]


@pytest.mark.parametrize(
    ("known", "verdict", "status", "attempts", "crashes", "unknown_count"), DOUBTFUL
)
def test_an_email_in_doubt_ends_sent_or_unknown(
    known: dict[str, Any],
    verdict: Verdict,
    status: Status,
    attempts: int,
    crashes: int,
    unknown_count: int,
) -> None:
    found = judge(facts(**known, doubtful=frozenset("a")), transaction(verdict))
    assert (found.status, found.attempts_added) == (status, attempts)
    assert (found.crashes_added, found.unknown_total) == (crashes, unknown_count)


def test_an_email_whose_part_took_longer_than_it_may_is_put_off_with_its_rest() -> None:
    slow = replace(transaction(V.RETRY, V.NEXT), phase=Phase.RCPT)
    assert judge(facts(), slow).again
    found = judge(facts(), replace(slow, took_too_long=True))
    assert (found.status, found.again, found.attempts_added) == (Status.PENDING, False, 1)


def test_an_email_in_doubt_is_sent_again_twice_at_most() -> None:
    known, path = facts(), []
    for _ in range(MAX_UNKNOWN):
        found = judge(known, transaction(V.UNKNOWN))
        path.append(found.status)
        known = facts(
            unknown_count=found.unknown_total, attempts=known.attempts + 1, doubtful=frozenset("a")
        )
    assert path == [Status.PENDING, Status.PENDING, Status.UNKNOWN]


# several recipients: facts, their verdicts, the whole's -> status, their outcomes, unknown_count
SEVERAL: list[tuple[dict[str, Any], list[Verdict], Verdict, Status, str, int]] = [
    ({}, [V.SENT, V.SENT], V.SENT, Status.SENT, "sent sent", 0),
    ({}, [V.SENT, V.FAIL], V.SENT, Status.SENT, "sent failed", 0),
    ({}, [V.FAIL, V.FAIL], V.FAIL, Status.FAILED, "failed failed", 0),
    ({}, [V.SENT, V.RETRY], V.SENT, Status.PENDING, "sent pending", 0),
    ({}, [V.FAIL, V.RETRY], V.RETRY, Status.PENDING, "failed pending", 0),
    ({}, [V.SENT, V.FAIL, V.RETRY], V.SENT, Status.PENDING, "sent failed pending", 0),
    ({"attempts": 11}, [V.SENT, V.RETRY], V.SENT, Status.SENT, "sent failed", 0),
    ({"attempts": 11}, [V.FAIL, V.RETRY], V.RETRY, Status.FAILED, "failed failed", 0),
    ({"seconds_left": 1.0}, [V.FAIL, V.RETRY], V.RETRY, Status.FAILED, "failed failed", 0),
    ({}, [V.UNKNOWN, V.UNKNOWN], V.UNKNOWN, Status.PENDING, "unknown unknown", 1),
    ({}, [V.UNKNOWN, V.FAIL], V.UNKNOWN, Status.PENDING, "unknown failed", 1),
    ({}, [V.UNKNOWN, V.RETRY], V.UNKNOWN, Status.PENDING, "unknown pending", 1),
    ({"on_unknown": HOLD}, [V.UNKNOWN, V.FAIL], V.UNKNOWN, Status.UNKNOWN, "unknown failed", 1),
    ({"on_unknown": HOLD}, [V.UNKNOWN, V.RETRY], V.UNKNOWN, Status.UNKNOWN, "unknown pending", 1),
    ({}, [V.RETRY, V.RETRY], V.RETRY, Status.PENDING, "pending pending", 0),
    ({}, [V.RETRY, V.NEXT], V.RETRY, Status.PENDING, "pending pending", 0),
    ({}, [V.FAIL, V.NEXT], V.FAIL, Status.PENDING, "failed pending", 0),
    ({}, [V.UNKNOWN, V.NEXT], V.UNKNOWN, Status.PENDING, "unknown pending", 1),
    ({"attempts": 11}, [V.FAIL, V.NEXT], V.FAIL, Status.FAILED, "failed failed", 0),
    # a is in doubt from before
    ({"unknown_count": 1}, [V.SENT, V.RETRY], V.SENT, Status.PENDING, "sent pending", 0),
    ({"unknown_count": 1}, [V.SENT, V.FAIL], V.SENT, Status.SENT, "sent failed", 0),
    ({"unknown_count": 1}, [V.FAIL, V.RETRY], V.RETRY, Status.PENDING, "unknown pending", 1),
    ({"unknown_count": 1}, [V.RETRY, V.SENT], V.SENT, Status.PENDING, "unknown sent", 1),
    ({"unknown_count": 1}, [V.FAIL, V.SENT], V.SENT, Status.UNKNOWN, "unknown sent", 1),
    ({"unknown_count": 1}, [V.FAIL, V.FAIL], V.FAIL, Status.UNKNOWN, "unknown failed", 1),
    ({"unknown_count": 2}, [V.UNKNOWN, V.FAIL], V.UNKNOWN, Status.UNKNOWN, "unknown failed", 3),
    (
        {"unknown_count": 1, "attempts": 11},
        [V.RETRY, V.SENT], V.SENT, Status.UNKNOWN, "unknown sent", 1,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("known", "verdicts", "whole", "status", "outcomes", "unknown_count"), SEVERAL
)
def test_each_recipient_has_an_outcome_of_their_own(
    known: dict[str, Any],
    verdicts: list[Verdict],
    whole: Verdict,
    status: Status,
    outcomes: str,
    unknown_count: int,
) -> None:
    doubtful = frozenset("a") if known.get("unknown_count") else frozenset()
    found = judge(facts(**known, doubtful=doubtful), transaction(*verdicts, whole=whole))
    assert (found.status, states(found), found.unknown_total) == (status, outcomes, unknown_count)
    assert found.attempts_added == 1


@pytest.mark.parametrize(
    ("settled", "verdict", "status"),
    [
        ({R.SENT}, V.FAIL, Status.SENT),
        ({R.SENT}, V.SENT, Status.SENT),
        ({R.FAILED}, V.SENT, Status.SENT),
        ({R.FAILED}, V.FAIL, Status.FAILED),
        ({R.SENT, R.FAILED}, V.FAIL, Status.SENT),
        ({R.SUPPRESSED}, V.FAIL, Status.FAILED),
        ({R.UNKNOWN}, V.SENT, Status.UNKNOWN),
    ],
)
def test_what_earlier_transactions_came_to_counts(
    settled: set[R], verdict: Verdict, status: Status
) -> None:
    assert judge(facts(settled=frozenset(settled)), transaction(verdict)).status is status


@pytest.mark.parametrize(
    ("settled", "status"),
    [
        ({R.SENT}, Status.SENT),
        ({R.FAILED}, Status.FAILED),
        ({R.UNKNOWN}, Status.UNKNOWN),
        ({R.UNKNOWN, R.SENT}, Status.UNKNOWN),
    ],
)
@pytest.mark.parametrize(
    ("known", "verdict"), [({"crashes": 4}, V.UNSENT), ({"seconds_left": 0.0}, V.SUSPECT)]
)
def test_an_email_that_is_given_up_ends_as_what_is_true_of_it(
    settled: set[R], status: Status, known: dict[str, Any], verdict: Verdict
) -> None:
    unknown = {"unknown_count": int(R.UNKNOWN in settled)}
    state = facts(**known, **unknown, settled=frozenset(settled))
    assert judge(state, transaction(verdict)).status is status


def test_more_recipients_than_one_transaction_takes_go_on_at_once_uncharged() -> None:
    found = judge(facts(), transaction(V.SENT, V.FAIL, V.NEXT, V.NEXT))
    assert (found.status, found.again, found.attempts_added) == (Status.SENDING, True, 0)
    assert states(found) == "sent failed pending pending"
    assert found.delay == 0


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [([V.FAIL, V.NEXT], "failed pending"), ([V.RETRY, V.FAIL, V.NEXT], "pending failed pending")],
)
def test_those_whom_a_transaction_did_not_name_go_on_at_once_where_all_others_were_refused(
    verdicts: list[Verdict], expected: str
) -> None:
    result = replace(transaction(*verdicts), phase=Phase.RCPT)
    found = judge(facts(attempts=11), result)
    assert (found.status, found.again, found.attempts_added) == (Status.SENDING, True, 0)
    assert states(found) == expected


def test_a_recipient_in_doubt_who_must_wait_for_the_next_transaction_stays_in_doubt() -> None:
    known = facts(unknown_count=1, doubtful=frozenset("b"))
    found = judge(known, transaction(V.SENT, V.NEXT))
    assert (states(found), found.unknown_total, found.again) == ("sent unknown", 1, True)


def test_the_one_recipient_left_of_several_has_their_outcome_recorded() -> None:
    """The others may be suppressed: then the fast way for one recipient must still name them."""
    assert states(judge(facts(), transaction(V.SENT))) == "sent"


def test_a_time_that_the_server_names_is_kept_as_the_least() -> None:
    found = judge(facts(), transaction(V.RETRY, retry_after=300.0), chance=0.0)
    assert (found.status, found.delay) == (Status.PENDING, 300)


def test_a_time_that_the_server_names_beyond_the_lifetime_ends_the_email() -> None:
    found = judge(facts(seconds_left=299.0), transaction(V.RETRY, retry_after=300.0))
    assert found.status is Status.FAILED


def test_full_jitter_leaves_a_second_at_least() -> None:
    assert judge(facts(), transaction(V.RETRY), chance=0.0).delay == 1
