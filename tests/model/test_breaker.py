"""The model of suspicion, blame and probes: what it promises, and what breaks without each line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.model.spin import Searcher, unsaid

pytestmark = pytest.mark.long

SIZES: dict[str, tuple[dict[str, int], int]] = {
    "four emails and any fault": ({"FAULTS": 1}, 2_219_000),
    "two batches and any fault": ({"FAULTS": 1, "EMAILS": 3, "BATCHES": 2}, 3_829_000),
    "halting replies counted": ({"FAULTS": 0, "COUNTED": 1}, 351_000),
}
ENDLESS = {
    "two batches": {"FAULTS": 0, "EMAILS": 3, "BATCHES": 2},
    "any fault": {"FAULTS": 1, "EMAILS": 3},
}
VARIANTS: dict[str, tuple[dict[str, int], str, str]] = {
    # what is taken out: (the model's size, the promise that breaks, a step on the way there)
    "PROBE_TAKES_THE_SAME": ({"COUNTED": 1}, "never_stopped", "is halted"),
    "HALT_BLAMES_THE_SERVER": ({"COUNTED": 1}, "never_stopped", "the server is to blame"),
    "SUSPECT_CHARGED_AT_ONCE": ({}, "outage_charges_nobody", "email 0 is charged"),
    "OUTAGE_IS_A_SUSPICION": ({"FAULTS": 1}, "innocent_not_charged", "email 0 is charged"),
    "UNTRIED_END": ({}, "innocent_not_ended", "email 2 was not tried, and waits"),
    "SUSPICION_FORGOTTEN": ({}, "outage_is_noticed", "email 0 waits behind the others"),
    "CLASS_BLAMES_THE_SERVER": ({}, "class_stops_no_other", "is halted"),
    "PROBE_NOT_ASKED_AGAIN": ({"EMAILS": 3, "BATCHES": 2}, "one_probe", "takes the probe"),
    "PROBER_NOTED_LATE": ({"EMAILS": 3, "BATCHES": 2}, "one_probe", "is noted as the probe"),
    "PROBER_OUTLIVES_ITS_LEASE": ({"FAULTS": 2}, "never_stopped", "its process dies"),
}


@pytest.mark.parametrize("size", SIZES)
def test_the_promise_holds_in_every_state(holds: Callable[..., None], size: str) -> None:
    holds("breaker", SIZES[size])


@pytest.mark.parametrize("size", ENDLESS)
def test_every_run_comes_to_an_end(search: Searcher, size: str) -> None:
    result = search("breaker", **ENDLESS[size]).cycles()
    assert (result.errors, result.complete) == (0, True)


def test_a_probe_that_takes_the_same_email_again_and_again_would_be_found(
    search: Searcher,
) -> None:
    result = search("breaker", FAULTS=0, PROBE_TAKES_THE_SAME=1, ONLY="never_stopped").cycles()
    print(*result.story, sep="\n")
    tried = {line for line in result.cycle if line.endswith(("is halted", "is taken"))}
    assert len(tried) == 1, result.cycle
    assert tried.pop().endswith("is halted")


def test_every_action_happens_in_some_run(search: Searcher) -> None:
    said = search("breaker", FAULTS=1, EMAILS=3).said()
    said |= search("breaker", FAULTS=0, EMAILS=3, BATCHES=2).said()
    assert not unsaid("breaker", said, but="BROKEN")


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_it_the_promise_breaks(search: Searcher, variant: str) -> None:
    size, promise, step = VARIANTS[variant]
    macros = {"FAULTS": 0, "ONLY": promise, **size, variant: 1}
    told = search("breaker", **macros).shortest_story()
    print(*told.story, sep="\n")
    assert told.broken == promise
    assert any(step in line for line in told.story), told.story
