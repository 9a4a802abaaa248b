"""Random interleavings of every step, on each database, against a few lines of plain Python."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.integration.conftest import Shops
from tests.integration.machine.machine import Machine
from tests.integration.machine.model import LEASE, MAX_ATTEMPTS, MAX_DELIVERIES

EXAMPLES = int(os.environ.get("OUTBOX_MACHINE_EXAMPLES", "50"))
STEPS = 40
PHASES = [Phase.generate]
if os.environ.get("CI", "").lower() != "true":  # five minutes for a person; CI shows what it found
    PHASES.append(Phase.shrink)


@pytest.mark.timeout(600)
def test_the_tables_are_what_the_model_says(shops: Shops) -> None:
    config = {"OUTBOX_MAX_ATTEMPTS": MAX_ATTEMPTS, "OUTBOX_MAX_DELIVERIES": MAX_DELIVERIES}
    machine = type("Machine", (Machine,), {"shop": shops.open(OUTBOX_LEASE=LEASE, **config)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )
