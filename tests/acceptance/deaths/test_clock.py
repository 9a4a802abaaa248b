"""A host's clock that is set, and what must go on all the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.soak.hosts.clock import Clock, build
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.missing import missing
from tests.support.system.system import System
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.one_broker("redis")]

TEN_MINUTES = 600


@pytest.mark.databases("sqlite")
def test_beat_sweeps_on_when_the_clock_is_set_back_and_when_it_starts_again_then(
    system: System, tmp_path: Path
) -> None:
    library = build(tmp_path) or missing("a C compiler", "apt install gcc libc6-dev")
    clock = Clock(library, tmp_path / "offset")
    environment = {"ACCEPTANCE_CONFIG": json.dumps(system.config), **clock.environment()}
    with CeleryProcess("tests.support.system.app", "beat", environment=environment) as beat:
        _wait_for_sweeps(system, "as usual")
        clock.set_off(TEN_MINUTES)
        _wait_for_sweeps(system, "when the clock is set ahead")
        clock.set_off(0)
        _wait_for_sweeps(system, "when it is set back")
        clock.set_off(TEN_MINUTES)
        _wait_for_sweeps(system, "when the clock is set ahead again")
        beat.stop()
        clock.set_off(0)
        beat.start()
        _wait_for_sweeps(system, "when beat was stopped meanwhile")


def _wait_for_sweeps(system: System, when: str) -> None:
    """Wait until beat has published two more: it could not know of the clock at the first one."""
    for _ in range(2):
        system.broker.empty()  # nobody works here, and beat publishes none where one waits
        wait_until(lambda: system.broker.waiting() > 0, 20, f"beat to sweep {when}")
