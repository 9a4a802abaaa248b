"""The broker refuses, doubles, delays and shuffles, and nobody gets an email twice or never."""

from __future__ import annotations

import pytest

from tests.kill.conftest import both_policies, everywhere
from tests.kill.stage.faults import Fault
from tests.kill.stage.roles import Delivery
from tests.kill.stage.stage import Stage
from tests.kill.stage.tally import Tally
from tests.kill.stage.tracer import Kind

pytestmark = [pytest.mark.long, *everywhere]


@both_policies
def test_whichever_publish_is_refused_or_doubled_each_recipient_gets_one_copy(
    stage: Stage,
) -> None:
    recording = stage.record()
    tally = Tally(recording=recording, title=stage.title)
    for fault, kind, name in (
        (Fault.REFUSE, Kind.PUBLISHING, "publishes refused"),
        (Fault.REFUSE, Kind.PUBLISHED, "publishes whose error came too late"),
        (Fault.DOUBLE, Kind.PUBLISHED, "publishes doubled"),
    ):
        for moment in recording.points(kind):
            stage.begin()
            end = stage.nursery.run("worker trace", fault=fault, at=moment.number)
            assert end.done
            tally.expect(moment, "befell it at", end.facts["point"], moment.what)
            stage.ledger.wait_idle()
            tally.enter(name, moment, stage.copies(), stage.statuses())
            tally.expect(moment, "copies", stage.copies(), recording.copies)
    stage.say(tally.figures())
    tally.check()


@both_policies
def test_whichever_task_comes_twice_late_or_out_of_order_each_recipient_gets_one_copy(
    stage: Stage,
) -> None:
    recording = stage.record()
    assert recording.tasks > 1
    tally = Tally(recording=recording, title=stage.title)
    chosen = [
        (delivery, task)
        for delivery in (Delivery.TWICE, Delivery.AGAIN, Delivery.LATE)
        for task in range(recording.tasks)
    ]
    for delivery, task in [*chosen, (Delivery.REVERSED, -1)]:
        where = f"task {task}, {delivery}"
        stage.begin()
        assert stage.nursery.run("worker", delivery=delivery, task=task).done
        stage.ledger.wait_idle()
        tally.enter(f"tasks {delivery}", where, stage.copies(), stage.statuses())
        tally.expect(where, "miscounted", stage.miscounted(), {})
        tally.expect(where, "copies", stage.copies(), recording.copies)
        stale = stage.counters().get("stale_tasks", 0)
        tally.expect(where, "stale tasks", stale, int(delivery is not Delivery.REVERSED))
    stage.say(tally.figures())
    tally.check()
