"""A real `celery worker` is killed at some of the points, and stands where the recording says.

So what is found for the forked processes of the other tests is found for Celery's.
"""

from __future__ import annotations

import json

import pytest

from outbox.worker.broker.queues import SWEEP_QUEUE
from tests.kill.conftest import everywhere, one_combination
from tests.kill.stage.judgement import Moment, Recording
from tests.kill.stage.stage import Stage
from tests.kill.stage.tally import Tally
from tests.kill.stage.tracer import Kind
from tests.support.servers.celery_process import CeleryProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, *everywhere, one_combination]


def test_a_celery_worker_that_is_killed_leaves_what_was_recorded_and_all_is_well(
    stage: Stage,
) -> None:
    recording = stage.record(by_clock=False)
    tally = Tally(recording=recording, title=f"{stage.title}, celery worker")
    for moment in stage.turn(_some(recording)):
        stage.begin()
        same = [other for other in recording.moments[: moment.number] if other.what == moment.what]
        environment = {
            "KILL_CONFIG": json.dumps(stage.config),
            "KILL_POINT": moment.what,
            "KILL_AT": str(len(same) + 1),
        }
        with CeleryProcess(
            "tests.kill.stage.celery_app",
            "worker",
            "--concurrency=1",
            environment=environment,
            warm=True,
        ) as worker:
            stage.shop.runtime.publish("outbox.sweep", SWEEP_QUEUE)
            wait_until(lambda: not worker.running, 60, lambda: f"its death:\n{worker.printed()}")
        stage.ledger.wait_idle()
        tally.expect(moment, "left", stage.shop.standing(), moment.standing)
        stage.go_on(0.0)
        copies, statuses = stage.copies(), stage.statuses()
        tally.enter("kills", moment, copies, statuses, may_repeat=moment.exposed)
        tally.expect(moment, "miscounted", stage.miscounted(), {})
        tally.expect(moment, "copies", copies, recording.copies_after(moment, hold=False))
        tally.expect(moment, "ended", statuses, recording.standing_after(moment, hold=False))
    stage.say(tally.figures())
    tally.check()


def _some(recording: Recording) -> list[Moment]:
    """Choose the first point after each step of an email's way."""
    moments = recording.moments
    claimed = next(m for m in moments if "claimed" in _statuses(m))
    published = next(m for m in moments if m.kind is Kind.PUBLISHED)
    opened = next(m for m in moments if "sending" in _statuses(m))
    dotted = next(m for m in moments if m.exposed)
    answered = next(m for m in moments if m.exposed and m.kind is Kind.READ)
    recorded = next(m for m in moments if "sent" in _statuses(m))
    return [claimed, published, opened, dotted, answered, recorded]


def _statuses(moment: Moment) -> set[str]:
    return {mail for mail, _ in moment.standing.values()}
