"""Beat knows for how long it has been stuck, so that a beat that hangs writes no row."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from celery import Celery

from outbox.celery_config import SteadyScheduler, beat_schedule
from outbox.domain.fleet import SILENT
from outbox.worker.fleet.members import BeatMember
from tests.support.waiting import wait_until


class Publishing(SteadyScheduler):
    """A scheduler whose broker takes a moment."""

    late = 0.0

    def apply_async(self, *_: Any, **__: Any) -> Any:
        wait_until(lambda: self.seconds_late() > 0.01, 10, "the time to pass")
        self.late = self.seconds_late()
        return SimpleNamespace(id="1")


def test_beat_is_late_within_a_tick_and_not_between_two(tmp_path: Path) -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.beat_schedule = beat_schedule()
    scheduler = Publishing(app, schedule_filename=str(tmp_path / "schedule"))
    assert scheduler.seconds_late() == 0.0, "it has not ticked yet"
    for entry in scheduler.schedule.values():
        entry.last_run_at = entry.default_now().replace(year=2020)
    seconds = scheduler.tick()
    assert scheduler.late > 0.01
    assert seconds == 0.0 or scheduler.seconds_late() == 0.0
    scheduler.close()


def test_only_a_beat_that_ticks_is_well_and_of_another_scheduler_nothing_is_known() -> None:
    def is_well(**scheduler: Any) -> bool:
        service = SimpleNamespace(scheduler=SimpleNamespace(**scheduler))
        return BeatMember(None, service).is_well()  # type: ignore[arg-type]

    assert is_well(seconds_late=lambda: SILENT - 1)
    assert not is_well(seconds_late=lambda: SILENT)
    assert is_well()
