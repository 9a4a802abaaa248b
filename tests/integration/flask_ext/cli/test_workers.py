"""`flask outbox workers`, and what `check` and `health` say of the fleet by its table alone."""

from __future__ import annotations

import os
from typing import Any

import pytest

from outbox import Fleet, WorkerState
from outbox.domain.fleet import BEAT, LIVING, SILENT
from outbox.flask_ext.management.checks.fleet_table import RESTART
from outbox.store.control import fleet
from outbox.worker.beat_mark import note_beat
from outbox.worker.fleet.inquiry import OURS
from outbox.worker.fleet.own_process import this_boot
from tests.support.shop.fleet import row, settings_of, written
from tests.support.shop.shell import Run, parsed, runner
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.one_database("sqlite")

A_BEAT: dict[str, Any] = {
    "name": "beat@far",
    "pool": BEAT,
    "queues": "",
    "concurrency": 0,
    "slots": 0,
}


@pytest.fixture
def run(shop: Shop) -> Run:
    """Runs `flask outbox` with these words."""
    return runner(shop)


def known(shop: Shop) -> Fleet:
    with shop.app.app_context():
        return shop.outbox.workers()


def problem(shop: Shop) -> str:
    """Return the only problem of the fleet."""
    [text] = known(shop).problems
    return text


def health(shop: Shop) -> Any:
    with shop.app.app_context():
        return shop.outbox.health()


def test_nothing_is_wrong_where_no_worker_ever_wrote_itself_down(shop: Shop, run: Run) -> None:
    found = known(shop)
    assert (found.workers, found.beats, found.unheard, found.problems) == ((), (), {}, ())
    assert run("workers").output.splitlines() == [
        "0 living workers, 4 slots",
        "no task of beat was ever seen",
    ]


@pytest.mark.databases("sqlite", "postgresql", "mariadb")
def test_the_fleet_is_told_with_its_slots_queues_and_beats(shop: Shop, run: Run) -> None:
    written(shop, row("celery@a", tasks=1, settings=settings_of(shop.runtime)))
    written(shop, row("celery@b", slots=3, concurrency=3))
    written(shop, row(**A_BEAT))
    note_beat(shop.runtime)
    found = known(shop)
    states = {one.name: one.state for one in found.living}
    assert states == {"celery@a": WorkerState.BUSY, "celery@b": WorkerState.IDLE}
    assert (found.slots, found.unheard, found.problems) == (5, {}, ())
    assert [one.name for one in found.beats] == ["beat@far"]
    output = run("workers").output
    assert output.startswith("2 living workers, 5 slots\n")
    assert "busy     celery@a  pid 7, " in output
    assert f"prefork 0/3, {','.join(OURS)}" in output
    assert "a task of beat was seen 0 s ago" in output


def test_the_json_has_each_worker_and_what_is_wrong(shop: Shop, run: Run) -> None:
    written(shop, row("celery@a"))
    shop.later(LIVING + 1)
    found = parsed(run("workers", "--json"))
    [worker] = found["workers"]
    assert (worker["name"], worker["state"], worker["is_missed"]) == ("celery@a", "dead", True)
    assert worker["queues"] == list(OURS)
    assert found["slots"] == 4
    assert set(found["unheard"]) == set(OURS)
    assert len(found["problems"]) == 2


def test_a_silent_worker_is_told_within_thirty_seconds_and_then_a_dead_one(shop: Shop) -> None:
    written(shop, row("celery@a"))
    shop.later(SILENT + 1)
    assert problem(shop).startswith("the worker celery@a is silent: it was seen 26 s ago")
    shop.later(LIVING - SILENT)
    told, deaf = known(shop).problems
    assert told.startswith("the worker celery@a is dead: it was seen 46 s ago")
    assert deaf.startswith("no living worker listens to outbox.sweep, outbox.urgent, ")


def test_a_worker_of_this_host_whose_process_is_gone_is_dead_at_once(shop: Shop) -> None:
    written(shop, row("celery@a", boot=this_boot(), pid=os.getpid(), process_start=1))
    [worker] = known(shop).workers
    assert worker.state is WorkerState.DEAD


def test_a_dead_worker_is_not_missed_once_a_later_one_has_its_queues(shop: Shop) -> None:
    written(shop, row("celery@a"))
    shop.later(LIVING + 1)
    written(shop, row("celery@b"))
    assert known(shop).problems == ()


def test_a_worker_that_stopped_is_no_problem_but_queues_without_one_are(shop: Shop) -> None:
    worker = written(shop, row("celery@a"))
    shop.database.run(lambda c: fleet.leave(c, shop.database, worker))
    assert known(shop).problems == (), "it may be restarted"
    shop.later(RESTART + 1)
    assert problem(shop).startswith("no living worker listens to outbox.sweep, ")
    assert "(the last one was seen 31 s ago)" in problem(shop)


def test_health_turns_when_emails_wait_and_nobody_listens_and_asks_no_broker(shop: Shop) -> None:
    written(shop, row("celery@a"))
    shop.later(LIVING + 1)
    found = health(shop)
    assert found.healthy, "nothing waits"
    assert len(found.warnings) == 2
    shop.enqueue()
    shop.later(RESTART + 60)
    found = health(shop)
    assert not found.healthy
    [told] = found.problems
    assert told.startswith("no living worker listens to outbox.sweep, ")


def test_a_queue_to_which_no_living_worker_listens_is_named(shop: Shop) -> None:
    written(shop, row("celery@a", queues="outbox.sweep outbox.urgent outbox.normal outbox.low"))
    assert problem(shop).startswith("no living worker listens to outbox.bulk: ")


def test_other_versions_and_other_settings_are_told(shop: Shop) -> None:
    written(shop, row("celery@a", version="0.0.9"))
    assert problem(shop).endswith("and there run 0.0.9: celery@a: restart the older")
    written(shop, row("celery@b", settings='{"OUTBOX_LEASE": "0", "OUTBOX_NEW": "0"}'))
    told = known(shop).problems[-1]
    assert told.startswith("celery@b has other settings than this process: OUTBOX_LEASE; ")


def test_a_dead_beat_is_told_until_something_else_sweeps(shop: Shop) -> None:
    written(shop, row(**A_BEAT))
    note_beat(shop.runtime)
    shop.later(LIVING + 1)
    assert problem(shop).startswith("beat@far is dead: it was seen 46 s ago, and no other beat")
    shop.later(600)
    shop.runtime.beat_noted_until = 0.0
    note_beat(shop.runtime)  # cron does it now
    assert known(shop).problems == ()
