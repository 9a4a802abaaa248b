"""The model keeps the promise in every state, each run ends, and no action of it is idle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.model.spin import Searcher, unsaid

pytestmark = pytest.mark.long

SIZES: dict[str, tuple[dict[str, int], int]] = {
    "any two faults": ({"FAULTS": 2, "WITHDRAW": 0}, 4_900_000),
    "a withdrawal and any fault": ({"FAULTS": 1}, 300_000),
    "a window of two and any fault": ({"FAULTS": 1, "WINDOW": 2}, 300_000),
}
ONLY_IN_VARIANTS = "BROKEN|nobody is nudged"


@pytest.mark.parametrize("size", SIZES)
def test_the_promise_holds_in_every_state(holds: Callable[..., None], size: str) -> None:
    holds("outbox", SIZES[size])


def test_every_run_comes_to_an_end(search: Searcher) -> None:
    result = search("outbox", FAULTS=1).cycles()
    assert (result.errors, result.complete) == (0, True)


def test_a_run_without_an_end_would_be_found(search: Searcher) -> None:
    assert search("outbox", FAULTS=0, RESCUE_BLIND=1, ONLY="never_lost").cycles().errors == 1


def test_every_action_happens_in_some_run(search: Searcher) -> None:
    said = search("outbox", FAULTS=1).said()
    assert not unsaid("outbox", said, but=ONLY_IN_VARIANTS)
    # The bound is met: a model in which nothing is ever sent twice would prove too little.
    assert any("mail 0, copies: 2" in line for line in said)
    assert not any("mail 0, copies: 3" in line for line in said)
    assert not any("mail 1, copies: 2" in line for line in said)
