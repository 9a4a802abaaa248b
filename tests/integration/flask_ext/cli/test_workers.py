"""`flask outbox workers`, and what `check` and `health` say of the fleet by its table alone."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from celery import Celery

from outbox import Fleet, WorkerState
from outbox.domain.fleet import BEAT, LIVING, SILENT, STILL
from outbox.flask_ext.management.checks.fleet_table import RESTART
from outbox.store.control import counter, fleet
from outbox.worker.beat_mark import note_beat, note_task
from outbox.worker.broker.queues import beat_schedule
from outbox.worker.fleet.inquiry import OURS
from outbox.worker.process.own_process import this_boot
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
    later = known(shop)
    assert output.startswith("2 living workers, 5 slots\n")
    assert "busy     celery@a  pid 7, " in output
    assert f"prefork 0/3, {','.join(OURS)}" in output
    [seconds] = re.findall(r"a task of beat was seen (\d+) s ago", output)
    assert found.beat_seconds is not None
    assert later.beat_seconds is not None
    assert round(found.beat_seconds) <= int(seconds) <= round(later.beat_seconds)


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
    found = known(shop)
    [worker], [told] = found.workers, found.problems
    assert worker.seen_seconds > SILENT
    silent = f"the worker celery@a is silent: it was seen {worker.seen_seconds:.0f} s ago"
    assert told.startswith(silent)
    shop.later(LIVING - SILENT)
    found = known(shop)
    [worker], [told, deaf] = found.workers, found.problems
    assert worker.seen_seconds > LIVING
    assert told.startswith(
        f"the worker celery@a is dead: it was seen {worker.seen_seconds:.0f} s ago"
    )
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
    found = known(shop)
    [stopped], [told] = found.workers, found.problems
    assert told.startswith("no living worker listens to outbox.sweep, ")
    assert f"(the last one was seen {stopped.seen_seconds:.0f} s ago)" in told


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
    found = known(shop)
    [beat], [told] = found.beats, found.problems
    seen = f"it was seen {beat.seen_seconds:.0f} s ago"
    assert told.startswith(f"beat@far is dead: {seen}, and no other beat")
    shop.later(600)
    shop.runtime.seldom.forget(counter.BEAT)
    note_beat(shop.runtime)  # cron does it now
    assert known(shop).problems == ()


def test_a_silent_beat_is_told_within_thirty_seconds(shop: Shop) -> None:
    written(shop, row(**A_BEAT))
    shop.later(SILENT + 1)
    found = known(shop)
    [beat], [told] = found.beats, found.problems
    seen = f"it was seen {beat.seen_seconds:.0f} s ago"
    assert told.startswith(f"beat@far is silent: {seen}, and no other beat")
    written(shop, row(**A_BEAT | {"name": "beat@near"}))
    assert known(shop).problems == ()


def fleet_without_tasks(shop: Shop, **values: Any) -> UUID:
    """Have a worker take a task, and let it and beat live on without another one."""
    celery = Celery("shop", broker="memory://", set_as_current=False)
    celery.conf.beat_schedule = beat_schedule()
    shop.app.extensions["celery"] = celery
    note_task(shop.runtime)
    rows = [written(shop, row("celery@a", **values)), written(shop, row(**A_BEAT))]
    shop.later(STILL + 5)
    for worker in rows:
        shop.database.run(partial(fleet.renew, database=shop.database, worker=worker, changes={}))
    return rows[0]


@pytest.mark.databases("sqlite", "postgresql", "mariadb")
def test_tasks_that_come_to_no_worker_are_told_and_beat_is_not_accused(shop: Shop) -> None:
    worker = fleet_without_tasks(shop)
    assert re.match(r"no worker has got a task for 2\d s, though beat and 1 worker", problem(shop))
    shop.later(LIVING + 1)  # beat publishes in its only thread, which hangs by now
    shop.database.run(lambda c: fleet.renew(c, shop.database, worker, {}))
    assert re.match(r"no worker has got a task for 7\d s", problem(shop))
    shop.runtime.seldom.forget(counter.TASK)
    note_task(shop.runtime)
    assert problem(shop).startswith("beat@far is dead: ")


def test_health_turns_when_emails_wait_and_no_task_comes(shop: Shop) -> None:
    shop.enqueue()
    fleet_without_tasks(shop)
    found = health(shop)
    assert not found.healthy
    assert found.problems[0].startswith("no worker has got a task for 2")


@pytest.mark.parametrize(
    "busy", [{"tasks": 2}, {"queues": "outbox.normal"}, {"version": "0.0.9"}], ids=str
)
def test_where_no_worker_is_free_to_sweep_nothing_is_said_of_the_broker(
    shop: Shop, busy: dict[str, Any]
) -> None:
    fleet_without_tasks(shop, **busy)
    assert not any("no worker has got a task" in text for text in known(shop).problems)


def test_a_worker_that_has_just_started_may_still_get_its_first_task(shop: Shop) -> None:
    note_task(shop.runtime)
    shop.later(600)
    written(shop, row("celery@a"))
    written(shop, row(**A_BEAT))
    assert known(shop).problems == ()


def test_a_beat_that_died_is_not_taken_for_a_broker_that_is_away(shop: Shop) -> None:
    written(shop, row(**A_BEAT))
    worker = written(shop, row("celery@a"))
    shop.later(8)
    note_task(shop.runtime)  # the last one that beat asked for
    shop.later(LIVING)
    shop.database.run(lambda c: fleet.renew(c, shop.database, worker, {}))
    assert problem(shop).startswith("beat@far is dead: ")


def test_where_cron_sweeps_in_the_place_of_beat_no_task_is_missed(shop: Shop) -> None:
    fleet_without_tasks(shop)
    shop.app.extensions["celery"].conf.beat_schedule = {}  # beat runs the app's own tasks
    assert known(shop).problems == ()
