"""The counters of the metrics never fall, whatever dies: they are in the tables."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.system.app import outbox
from tests.support.system.system import System
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.one_broker("redis"),
    pytest.mark.one_database("postgresql"),
]

READERS = 600


Counters = dict[tuple[str, frozenset[tuple[str, str]]], float]


def counters() -> Counters:
    """Return the samples that may never fall, by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(outbox.metrics())
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }


def accepted(found: Counters) -> float:
    name = "outbox_time_to_accepted_seconds_count"
    return sum(value for (of, _), value in found.items() if of == name)


def test_no_counter_falls_when_workers_are_killed(system: System) -> None:
    seen = [counters()]

    def has_accepted(emails: int) -> bool:
        seen.append(counters())
        return accepted(seen[-1]) >= emails

    system.newsletter(READERS)
    system.beat()
    for part in (READERS // 10, READERS // 2):
        worker = system.worker()
        wait_until(partial(has_accepted, part), 60, "a part is accepted")
        worker.kill_9()
    system.worker()
    wait_until(lambda: has_accepted(READERS), 60, "all are accepted")
    for before, after in pairwise(seen):
        assert all(after[key] >= value for key, value in before.items())
    assert accepted(seen[-1]) == READERS
