"""What comes between refusals: only an email that is taken ends their row, whatever the words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from outbox.domain.delivery.refusal_streak import IN_ANY_WORDS
from outbox.domain.delivery.transaction import Phase, Reply, Transaction, Verdict
from tests.unit.delivery.refusals.test_refusal_streak import (
    BLOCKED,
    EARLY,
    NEEDED,
    NO_SUCH_USER,
    OTHER,
    hung_up,
    refusals,
    result,
    run,
)

GREYLISTED = Reply(code=451, enhanced="4.7.1", text="Greylisted, come back later")
NO_REPLY = Reply(code=0)


@pytest.mark.parametrize(
    ("between", "counts"),
    [
        (result("b@x.example", reply=NO_SUCH_USER), False),
        (result("b@x.example", verdict=Verdict.RETRY, reply=GREYLISTED), False),
        (result("b@x.example", verdict=Verdict.UNKNOWN, phase=Phase.DOT, reply=NO_REPLY), False),
        (result("b@x.example", phase=Phase.DOT), False),
        (result("b@x.example", reply=OTHER), True),
    ],
    ids=["an unknown recipient", "greylisting", "a doubt", "a content", "another refusal"],
)
def test_anything_else_in_between_does_not_end_the_row(between: Transaction, counts: bool) -> None:
    """It does not show that the server takes anybody."""
    two, one = refusals(NEEDED)[:2], result("z@x.example")
    *before, full = run(*two, between, one)
    assert before == [None] * 3
    assert full is not None
    assert full.emails == {0, 1, 3} | ({2} if counts else set())
    assert ("in several ways" in full.reason) is counts


def test_so_many_times_as_many_are_enough_in_any_words() -> None:
    replies = (replace(BLOCKED, text=f"report {'a' * n}") for n in range(1, 100))
    each = [result(f"r@{n}.example", reply=reply) for n, reply in enumerate(replies)]
    told = run(*each[: IN_ANY_WORDS * NEEDED])
    assert told[:-1] == [None] * (IN_ANY_WORDS * NEEDED - 1)
    assert told[-1] is not None
    assert told[-1].emails == set(range(IN_ANY_WORDS * NEEDED))


def test_one_domain_that_refuses_in_any_words_counts_only_as_often_as_it_takes_alike() -> None:
    replies = (replace(BLOCKED, text=f"report {'a' * n}") for n in range(1, 100))
    each = [result(f"r{n}@x.example", reply=reply) for n, reply in enumerate(replies)]
    assert run(*each) == [None] * 99


@EARLY
@pytest.mark.parametrize(
    "changes",
    [{"mixed": True}, {"reply": NO_SUCH_USER}],
    ids=["another one was accepted", "a recipient's own refusal"],
)
def test_who_was_refused_for_themselves_before_the_server_hung_up_does_not_count(
    verdict: Verdict, changes: dict[str, Any]
) -> None:
    early = hung_up("a@x.example", "b@x.example", verdict=verdict, **changes)
    two, one = refusals(NEEDED - 1), result("z@x.example")
    *before, full = run(*two, early, one)
    assert before == [None] * 3
    assert full is not None
    assert full.emails == {0, 1, 3}
