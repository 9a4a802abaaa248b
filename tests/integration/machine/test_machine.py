"""Random interleavings of every step, on each database, against a few lines of plain Python."""

from __future__ import annotations

import os
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from outbox import Status
from tests.integration.machine.machine import Machine
from tests.integration.machine.model import LEASE, MAX_ATTEMPTS, MAX_CRASHES
from tests.integration.machine.told import Told
from tests.integration.machine.worn import Worn
from tests.support.shop.shop import Shops

pytestmark = [pytest.mark.over_and_over, pytest.mark.each_database]

Kind = TypeVar("Kind", bound=Machine)
EXAMPLES = os.environ.get("OUTBOX_MACHINE_EXAMPLES")
STEPS = 40
PHASES = [Phase.generate]
if os.environ.get("CI", "").lower() != "true":  # five minutes for a person; CI shows what it found
    PHASES.append(Phase.shrink)


class Whole(Told, Worn):
    """All that the machine can do."""


def machine_on(shops: Shops, kind: type[Kind]) -> type[Kind]:
    config = {"OUTBOX_MAX_ATTEMPTS": MAX_ATTEMPTS, "OUTBOX_MAX_CRASHES": MAX_CRASHES}
    return type("Machine", (kind,), {"shop": shops.open(OUTBOX_LEASE=LEASE, **config)})


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_tables_are_what_the_model_says(shops: Shops, pytestconfig: pytest.Config) -> None:
    run_state_machine_as_test(
        machine_on(shops, Whole),
        settings=settings(
            max_examples=int(EXAMPLES or (50 if pytestconfig.getoption("--whole") else 20)),
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_lease_of_which_all_was_withdrawn_ends_and_counts_as_no_lost_worker(
    shops: Shops,
) -> None:
    state = machine_on(shops, Whole)()
    state.stock(count=1, hold=False)
    state.set_out(limit=1, size=0)
    state.cancel(key=None, pick=0, tag=None)
    state._leases_run_out()  # the steps compare what was rescued
    state.the_table_is_the_models()
    assert not state.model.leases
    state.teardown()


def test_a_batch_that_emails_that_go_alone_left_small_is_filled_up_to_its_limit(
    shops: Shops,
) -> None:
    state = machine_on(shops, Worn)()
    state.stock(count=2, hold=False)
    state.wear_out(limit=2)
    for count in (3, 2):
        state.buy(count, tag=None, life=None, hold=False)
    state.sweep(limit=3)
    state.the_table_is_the_models()
    assert sorted(len(state.model.held(token)) for token in state.model.leases) == [1, 3]


def in_doubt(shops: Shops, *, dies: bool) -> Machine:
    """Return a machine with one email that is in doubt under `hold`: a person has to decide."""
    state = machine_on(shops, Machine)()
    state.stock(count=1, hold=True)
    state.set_out(limit=1, size=0)
    state.lose(dies=dies, pick=0)
    return state


def test_a_verdict_that_comes_after_a_person_s_word_changes_nothing(shops: Shops) -> None:
    state = in_doubt(shops, dies=False)
    state.decide(outcome=Status.FAILED, pick=0)
    state.finish(pick=0, verdicts=["sent", "sent"])
    state.the_promise_holds()
    state.the_table_is_the_models()
    assert [mail.status for mail in state.model.emails.values()] == [Status.FAILED]


def test_a_retry_of_an_email_in_doubt_keeps_the_doubt(shops: Shops) -> None:
    state = in_doubt(shops, dies=True)
    state.decide(outcome=Status.PENDING, pick=0)
    state.the_table_is_the_models()
    state.cancel(key=None, tag=None, pick=0)
    state.the_promise_holds()
    state.the_table_is_the_models()
    assert [mail.status for mail in state.model.emails.values()] == [Status.UNKNOWN]
