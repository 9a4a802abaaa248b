"""`flask outbox check`: what the doctor finds."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from celery import Celery
from celery.concurrency.thread import TaskPool
from celery.signals import celeryd_after_setup
from flask import Flask
from sqlalchemy.pool import NullPool

from outbox import Outbox
from outbox.celery_config import QUEUES, beat_schedule, queues
from outbox.flask_ext.cli import check
from outbox.flask_ext.management.checks.celery_app import setup_findings
from outbox.flask_ext.management.checks.codes import Code
from outbox.flask_ext.management.checks.finding import Finding, error, warn
from tests.support.shop.shell import Run, parsed, runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.one_database("postgresql")


@pytest.fixture
def run(shop: Shop) -> Run:
    """Runs `flask outbox` with these words."""
    return runner(shop)


def with_celery(shop: Shop) -> Celery:
    """Give the app a Celery app with our schedule, and a broker that is away."""
    celery = Celery("shop", broker="redis://127.0.0.1:1/0")
    celery.conf.beat_schedule = beat_schedule()
    celery.conf.task_queues = QUEUES
    shop.app.extensions["celery"] = celery
    return celery


@pytest.mark.long
def test_check_passes_on_a_complete_set_up(shop: Shop, run: Run) -> None:
    celery = with_celery(shop)
    celery.conf.broker_url = "memory://"
    findings = parsed(run("check", "--json"))
    assert {finding["level"] for finding in findings} == {"ok", "warn"}  # SMTP in clear
    assert "the schema is complete" in run("check").output
    celery.conf.beat_schedule = {}
    assert "no outbox.sweep" in run("check", code=1).output


def test_the_gate_accepts_the_warnings_that_are_named_and_no_error(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(*findings: Finding) -> None:
        monkeypatch.setattr(check, "examine", lambda _: list(findings))

    clear, dead = warn("no TLS", Code.SMTP_IN_CLEAR), warn("it is dead", Code.WORKER_DEAD)
    found(clear)
    run("check", "--strict", code=1)
    assert "no TLS" in run("check", "--strict", "--accept", "smtp-in-clear").output
    told = {"level": "warn", "text": "no TLS", "code": "smtp-in-clear"}
    assert parsed(run("check", "--json")) == [told]
    found(clear, dead)
    run("check", "--strict", "--accept", "smtp-in-clear", code=1)
    run("check", "--strict", "--accept", "smtp-in-clear", "--accept", "worker-dead")
    found(error("no server", Code.SMTP_IN_CLEAR))
    run("check", "--strict", "--accept", "smtp-in-clear", code=1)
    assert (
        "'smtp-in-cleer' is not one of" in run("check", "--accept", "smtp-in-cleer", code=2).output
    )


@pytest.mark.long
def test_check_warns_of_previews_that_everybody_sees(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "/outbox/previews answers everybody"
    shop = shops.open(OUTBOX_PREVIEWS=True)
    with_celery(shop)
    assert told in runner(shop)("check", code=1).output
    monkeypatch.setenv("FLASK_DEBUG", "1")
    assert told not in runner(shop)("check", code=1).output


@pytest.mark.long
def test_check_warns_of_a_log_that_nobody_reads(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_celery(shop)
    assert "the logger outbox is disabled" not in run("check", code=1).output
    # What dictConfig does to each logger that it does not name: it would do so to all of them here.
    monkeypatch.setattr(logging.getLogger("outbox"), "disabled", True)
    assert "warn   the logger outbox is disabled" in run("check", code=1).output


@pytest.mark.long
def test_check_tells_of_a_ca_bundle_that_cannot_be_read(shops: Shops, tmp_path: Path) -> None:
    shop = shops.open(MAIL_USE_TLS=True, OUTBOX_TLS_CA_FILE=str(tmp_path / "none.pem"))
    with_celery(shop)
    told = "error  OUTBOX_TLS_CA_FILE cannot be read as certificates by this process (FileNotFound"
    assert told in runner(shop)("check", code=1).output


@pytest.mark.long
def test_check_tells_of_a_beat_that_sweeps_at_another_interval(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SWEEP_INTERVAL=10.0)
    celery, run = with_celery(shop), runner(shop)
    assert "at another interval than OUTBOX_SWEEP_INTERVAL" in run("check", code=1).output
    for schedule in (10.0, timedelta(seconds=10)):
        celery.conf.beat_schedule = beat_schedule(shop.app.config)
        celery.conf.beat_schedule["outbox.sweep"]["schedule"] = schedule
        assert "OUTBOX_SWEEP_INTERVAL" not in run("check", code=1).output


@pytest.mark.matrix
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("url", "late", "said"),
    [
        ("redis://localhost", False, None),
        ("redis://localhost", True, "with this broker tasks only come twice"),
        ("amqp://localhost", True, None),
        ("amqp://localhost", False, "a busy worker keeps tasks from a free one"),
        ("amqp://localhost", None, None),
    ],
)
def test_check_knows_which_acknowledgement_a_broker_needs(
    shop: Shop, run: Run, url: str, late: bool | None, said: str | None
) -> None:
    """Only what is said of our task by its name counts: the setting is for an app's own tasks."""
    named = {} if late is None else {"outbox.send": {"acks_late": late}}
    celery = with_celery(shop)
    celery.conf.update(broker_url=url, task_acks_late=not late, task_annotations=named)
    output = run("check", code=1).output
    assert said in output if said else "acks_late" not in output


@pytest.mark.long
@pytest.mark.parametrize(
    ("url", "disabled", "said"),
    [
        ("redis://localhost", True, False),
        ("redis://localhost", False, True),
        ("amqp://localhost", False, False),
    ],
)
def test_check_knows_with_which_broker_a_busy_worker_fetches_tasks(
    shop: Shop, run: Run, url: str, disabled: bool, said: bool
) -> None:
    with_celery(shop).conf.update(broker_url=url, worker_disable_prefetch=disabled)
    assert ("worker_disable_prefetch is off" in run("check", code=1).output) is said


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheduler", "said"),
    [
        ("celery.beat:PersistentScheduler", True),
        ("outbox.celery_config:SteadyScheduler", False),
        ("redbeat.RedBeatScheduler", False),
    ],
)
def test_check_names_the_beat_that_a_clock_set_back_does_not_stop(
    shop: Shop, run: Run, scheduler: str, said: bool
) -> None:
    with_celery(shop).conf.update(beat_scheduler=scheduler)
    assert ("outbox.celery_config:SteadyScheduler" in run("check", code=1).output) is said


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize(
    ("pool", "concurrency", "size", "said"),
    [
        ("threads", 24, {}, True),  # SQLAlchemy's default: 5 are kept open
        pytest.param("gevent", "21", {}, True, marks=pytest.mark.long),
        ("gevent", "20", {}, False),
        pytest.param("threads", "auto", {}, False, marks=pytest.mark.long),
        pytest.param("somebody.elses:Pool", 24, {}, False, marks=pytest.mark.long),
        pytest.param("threads", 20, {}, False, marks=pytest.mark.long),
        pytest.param("threads", 24, {"max_overflow": 40}, True, marks=pytest.mark.long),
        pytest.param(
            "threads", 24, {"pool_size": 6, "max_overflow": 0}, False, marks=pytest.mark.long
        ),
        pytest.param("threads", 24, {"max_overflow": -1}, False, marks=pytest.mark.long),
        pytest.param("threads", 24, {"pool_size": 0}, False, marks=pytest.mark.long),
        ("threads", 24, {"poolclass": NullPool}, False),
        pytest.param("prefork", 24, {}, False, marks=pytest.mark.long),
    ],
)
def test_check_tells_of_a_pool_that_keeps_no_connection_for_each_four_tasks(
    shops: Shops, pool: str, concurrency: int | str, size: dict[str, Any], said: bool
) -> None:
    shop = shops.open_on(sa.create_engine(shops.url, **size))
    with_celery(shop).conf.update(worker_pool=pool, worker_concurrency=concurrency)
    text = f"the engine's pool keeps 5 connections open, and a worker runs {concurrency} tasks"
    assert (text in runner(shop)("check", code=1).output) is said


@pytest.mark.long
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, []),
        ({"time_limit": 30}, ["a time_limit of 30 s"]),
        ({"soft_time_limit": 1529}, ["a soft_time_limit of 1529 s"]),
        ({"time_limit": 1531, "soft_time_limit": 1530}, []),
    ],
)
def test_check_tells_of_time_limits_below_the_time_outs_of_smtp(
    shop: Shop, run: Run, limits: dict[str, Any], said: list[str]
) -> None:
    """Only limits that are said of our task by its name hold for it."""
    named = {"outbox.send": limits}
    with_celery(shop).conf.update(task_annotations=named, task_time_limit=60)
    output = run("check", code=1).output
    assert [text for text in said if text in output] == said
    assert output.count("may wait 1530 s") == len(said)  # 15 + 5 + 10 + 900 + 600


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"task_default_queue": "jobs"}, "take outbox.celery_config.queues('jobs')"),
        ({"task_default_queue": "jobs", "task_queues": queues("jobs")}, None),
        ({"accept_content": ["yaml"]}, "accept_content has no json"),
        ({"accept_content": ["yaml"], "task_serializer": "yaml"}, None),
        ({"task_always_eager": True}, "task_always_eager is on"),
        ({"worker_pool_start_method": "spawn"}, "worker_pool_start_method is not fork"),
        ({"worker_pool": "eventlet"}, "use -P gevent or -P threads"),
        ({"beat_scheduler": "redbeat.RedBeatScheduler"}, "must take outbox.sweep out of beat_s"),
    ],
)
def test_check_knows_what_an_existing_celery_app_may_have(
    shop: Shop, settings: dict[str, Any], told: str | None
) -> None:
    celery = with_celery(shop)
    before = {one.text for one in setup_findings(shop.runtime, celery)}
    celery = with_celery(shop)
    celery.conf.update(settings)
    found = {one.text for one in setup_findings(shop.runtime, celery)} - before
    assert [told is not None and told in text for text in found] == ([True] if told else [])


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_check_tells_of_settings_that_came_too_late_and_of_a_second_flask_app(
    shops: Shops, tmp_path: Path
) -> None:
    shop = shops.open()
    shop.app.config["OUTBOX_WINDOW"] = 3
    celery = with_celery(shop)
    text = "set after init_app, and so without effect: OUTBOX_WINDOW"
    assert text in runner(shop)("check", code=1).output
    other = Flask("admin")
    engine = sa.create_engine(f"sqlite:///{tmp_path}/admin.db")
    Outbox().init_app(other, metadata=sa.MetaData(), engine=engine)
    other.extensions["celery"] = celery
    assert "admin): give each a Celery app of its own" in runner(shop)("check", code=1).output
    engine.dispose()


@pytest.mark.databases("sqlite")
def test_a_worker_tells_at_its_start_what_it_lacks(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app = with_celery(shop)
    # A double of Celery's Worker, which would change this process for good.
    worker = SimpleNamespace(
        app=app, concurrency=24, pool_cls=TaskPool, time_limit=60, soft_time_limit=None
    )
    celeryd_after_setup.send(sender="host", instance=worker, conf=app.conf)
    told = [record.getMessage() for record in caplog.records]
    assert sorted(text[:40] for text in told) == [
        "outbox: the engine's pool keeps 5 connec",
    ]
    caplog.clear()
    worker.app = Celery("somebody else's")
    celeryd_after_setup.send(sender="host", instance=worker, conf=app.conf)
    assert not caplog.records
