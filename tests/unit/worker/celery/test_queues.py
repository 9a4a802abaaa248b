"""The queues and beat's schedule."""

from __future__ import annotations

import pytest

from outbox.domain.errors import ConfigurationError
from outbox.domain.priority import Priority
from outbox.worker.broker.queues import (
    DEFAULT_QUEUE,
    LOW_QUEUE,
    PURGE_INTERVAL,
    QUEUES,
    SEND_QUEUES,
    SWEEP_QUEUE,
    beat_schedule,
)


def test_sweeps_and_each_priority_s_sends_have_a_queue_of_their_own() -> None:
    names = [queue.name for queue in QUEUES]
    assert set(names) == {SWEEP_QUEUE, *SEND_QUEUES.values(), DEFAULT_QUEUE, LOW_QUEUE}
    assert len(names) == len(set(names)) == len(Priority) + 3


def test_every_priority_has_a_queue_named_after_it() -> None:
    assert {p: f"outbox.{p.name.lower()}" for p in Priority} == SEND_QUEUES


def test_a_message_is_routed_by_its_queue_s_name() -> None:
    assert all(queue.routing_key == queue.name for queue in QUEUES)


def test_beat_sweeps_and_purges_on_queues_of_their_own() -> None:
    schedule = beat_schedule()
    assert {name: entry["task"] for name, entry in schedule.items()} == {
        "outbox.sweep": "outbox.sweep",
        "outbox.purge": "outbox.purge",
    }
    assert schedule["outbox.sweep"]["schedule"] == 1.0
    assert schedule["outbox.purge"]["schedule"] == PURGE_INTERVAL
    queues = {name: entry["options"]["queue"] for name, entry in schedule.items()}
    assert queues == {"outbox.sweep": SWEEP_QUEUE, "outbox.purge": LOW_QUEUE}


def test_the_interval_is_the_setting() -> None:
    config = {"OUTBOX_SWEEP_INTERVAL": 5, "SECRET_KEY": "x"}
    assert beat_schedule(config)["outbox.sweep"]["schedule"] == 5.0
    with pytest.raises(ConfigurationError):
        beat_schedule({"OUTBOX_SWEEP_INTERVALL": 5})


def test_no_entry_expires_because_hosts_clocks_differ() -> None:
    for entry in beat_schedule().values():
        assert set(entry["options"]) == {"queue"}
        assert "args" not in entry
