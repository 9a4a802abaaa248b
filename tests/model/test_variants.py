"""Each line that the promise needs is taken out of the model once, and the promise breaks."""

from __future__ import annotations

import pytest

from tests.model.spin import Searcher

pytestmark = pytest.mark.long

VARIANTS: dict[str, tuple[int, str, str]] = {
    # what is taken out: (faults, the promise that breaks, the step in which it went wrong)
    "NO_TOKEN_IN_RECORD": (1, "fenced", "worker 0: records mail 0 under token 1: unsent"),
    "CLAIM_STAYS_DUE": (0, "never_twice", "copies: 2"),
    "CLAIM_UNGUARDED": (0, "never_twice", "copies: 2"),
    "RESCUE_UNCHECKED": (1, "fenced_on_the_wire", "rescues token 1"),
    "RESCUE_BLIND": (0, "doubt_needs_a_fault", "rescues token 1"),
    "DEATH_GUESSED": (0, "doubt_needs_a_fault", "rescues token 1"),
    "RESCUE_WITHOUT_DOUBT": (1, "no_copy_under_hold", "the server takes mail 1, copies: 2"),
    "NUDGE_TRUSTED": (1, "never_lost", "nobody is nudged"),
    "RECORD_FIRST": (1, "never_lost", "copies: 0, is sent"),
    "NO_FENCE_ON_THE_WIRE": (1, "fenced_on_the_wire", "its lease surely holds"),
    "WINDOW_UNBOUNDED": (0, "doubt_fits_the_window", "opens the window of mail 1"),
    "DOUBT_FORGOTTEN": (1, "status_never_lies", "is withdrawn"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_it_the_promise_breaks(search: Searcher, variant: str) -> None:
    faults, promise, step = VARIANTS[variant]
    told = search("outbox", **{"FAULTS": faults, "ONLY": promise, variant: 1}).shortest_story()
    print(*told.story, sep="\n")
    assert told.broken == promise
    assert any(step in line for line in told.story), told.story


def test_with_all_of_them_it_does_not(search: Searcher) -> None:
    told = search("outbox", FAULTS=0).shortest_story()
    assert (told.errors, told.broken) == (0, None)
