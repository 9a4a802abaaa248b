"""A file's age tells whether a worker's loop and beat run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from celery import Celery
from celery.signals import heartbeat_sent

from webapp import heartbeat

OLD = 1_000_000_000


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "heartbeat"
    file.touch()
    os.utime(file, (OLD, OLD))
    monkeypatch.setenv("HEARTBEAT_FILE", str(file))
    return file


def test_a_worker_touches_it_at_each_heartbeat(file: Path) -> None:
    heartbeat.install()
    heartbeat_sent.send(sender=None)
    assert file.stat().st_mtime > OLD


def test_beat_touches_it_at_each_tick_and_ticks_often(file: Path, tmp_path: Path) -> None:
    app = Celery(set_as_current=False)
    app.conf.update(beat_schedule={}, result_expires=None)
    scheduler = heartbeat.BeatScheduler(app, schedule_filename=str(tmp_path / "schedule"))
    try:
        assert 0 < scheduler.tick() <= heartbeat.LONGEST
    finally:
        scheduler.close()
    assert file.stat().st_mtime > OLD


def test_without_the_variable_nothing_is_touched(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEARTBEAT_FILE")
    heartbeat.touch()
    assert file.stat().st_mtime == OLD
