"""What a worker does at its start: it gives our tasks time, and tells what its options lack."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa
from celery import Celery
from celery.concurrency.prefork import TaskPool as Prefork
from celery.concurrency.thread import TaskPool as Threads
from celery.signals import celeryd_after_setup
from flask import Flask

from outbox import Outbox
from outbox.celery_config import configure
from outbox.domain.config.settings import Settings
from outbox.worker.setup.green_pools import (
    NO_EVENTLET,
    blocked,
    is_eventlet,
    is_gevent,
    waiting_driver,
)
from outbox.worker.setup.late_settings import late_settings
from outbox.worker.setup.pairing import runtime_of
from outbox.worker.setup.worker_limits import needed_seconds

OURS = ("outbox.sweep", "outbox.send")
NEEDED = needed_seconds(Settings.from_config({}))


def flask_app() -> Flask:
    flask = Flask("shop")
    flask.config.update(MAIL_SERVER="mx.example", MAIL_USE_TLS=True)  # nothing else is to be told
    Outbox().init_app(
        flask, metadata=sa.MetaData(), engine=sa.create_engine("sqlite:////of/nobody.db")
    )
    return flask


def started(flask: Flask, *, annotations: Any = None, **options: Any) -> Celery:
    """Start a worker with these options, as far as its signal goes. The double is of Worker."""
    celery = Celery("shop", broker="memory://", set_as_current=False)
    celery.conf.update(task_annotations=annotations)
    configure(celery, flask)
    celery.amqp.queues.select(options.pop("queues", None))  # -Q
    given = {"concurrency": 2, "pool_cls": Prefork, "time_limit": None, "soft_time_limit": None}
    worker = SimpleNamespace(**given | options, app=celery)
    celeryd_after_setup.send(sender="host", instance=worker, conf=celery.conf)
    return celery


def limits(celery: Celery) -> set[tuple[float | None, float | None]]:
    return {(celery.tasks[name].soft_time_limit, celery.tasks[name].time_limit) for name in OURS}


def test_no_database_connection_is_open_when_its_pool_forks(tmp_path: Path) -> None:
    """A child would inherit it. Where the file is SQLite's, the child would lock nothing then."""
    flask, engine = Flask("shop"), sa.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    Outbox().init_app(flask, metadata=sa.MetaData(), engine=engine)
    engine.connect().close()
    assert isinstance(engine.pool, sa.QueuePool)
    assert engine.pool.checkedin() == 1
    started(flask)
    assert isinstance(engine.pool, sa.QueuePool)
    assert engine.pool.checkedin() == 0


def test_the_time_limits_of_a_worker_are_raised_for_our_tasks_only() -> None:
    needed = needed_seconds(Settings.from_config({}))
    assert limits(started(flask_app(), time_limit=300)) == {(needed, needed + 60)}
    assert limits(started(flask_app(), soft_time_limit=9)) == {(needed, None)}
    assert limits(started(flask_app(), time_limit=9000, soft_time_limit=8000)) == {(None, None)}
    assert limits(started(flask_app())) == {(None, None)}
    celery = started(flask_app(), time_limit=300, soft_time_limit=240)
    assert limits(celery) == {(needed, needed + 60)}

    @celery.task(name="mine", shared=False)
    def mine() -> None: ...

    assert mine.time_limit is None


@pytest.mark.parametrize(
    ("options", "said", "soft", "hard"),
    [
        ({"time_limit": 9000}, {}, NEEDED, None),
        ({"time_limit": NEEDED + 1}, {}, NEEDED, NEEDED + 60),
        ({"time_limit": 9000, "soft_time_limit": 9000}, {}, NEEDED, None),
        ({"time_limit": 300, "soft_time_limit": 9000}, {}, NEEDED, NEEDED + 60),
        ({}, {"time_limit": 9000}, NEEDED, 9000),
        ({}, {"time_limit": 9000, "soft_time_limit": 8000}, 8000, 9000),
        ({"time_limit": 9000}, {"soft_time_limit": 8000}, 8000, None),
        ({"soft_time_limit": 9000}, {}, None, None),
    ],
)
def test_before_each_hard_limit_comes_a_soft_one(
    options: dict[str, float], said: dict[str, float], soft: float | None, hard: float | None
) -> None:
    """A process that is killed while the database is away takes its known results with it."""
    celery = started(flask_app(), annotations=dict.fromkeys(OURS, said), **options)
    assert limits(celery) == {(soft, hard)}
    assert runtime_of(celery).has_hard_limit is ("time_limit" in options | said)


def test_a_limit_that_is_meant_for_our_tasks_stays_and_is_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = {name: {"time_limit": 30} for name in OURS}
    celery = started(flask_app(), annotations=said, time_limit=300)
    assert limits(celery) == {(None, 30)}
    assert "a time_limit of 30 s, and it may wait 1530 s" in caplog.text


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({"pool_cls": Threads, "concurrency": 40}, 40),
        ({"pool_cls": Threads, "concurrency": 2, "max_concurrency": 40}, 40),  # --autoscale
        ({"pool_cls": Threads, "concurrency": 20, "max_concurrency": None}, None),
        ({"pool_cls": Prefork, "concurrency": 40}, None),
    ],
)
def test_options_that_need_more_connections_are_told_of(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any], tasks: int | None
) -> None:
    flask = Flask("shop")
    pool = sa.QueuePool  # SQLAlchemy's default for a server keeps 5 open
    engine = sa.create_engine("sqlite:////of/nobody.db", poolclass=pool)
    Outbox().init_app(flask, metadata=sa.MetaData(), engine=engine)
    started(flask, **options)
    told = [one.getMessage() for one in caplog.records if "engine" in one.getMessage()]
    assert told == (
        [
            "outbox: the engine's pool keeps 5 connections open, and a worker runs"
            f" {tasks} tasks at once: set pool_size to {tasks // 4} or more"
        ]
        if tasks
        else []
    )


@pytest.mark.parametrize(
    ("options", "kept", "places"),
    [
        ({"pool_cls": Threads, "concurrency": 40}, 50, 10),
        ({"pool_cls": Threads, "concurrency": 2, "max_concurrency": 50}, 50, 13),  # --autoscale
        ({"pool_cls": Threads, "concurrency": 40}, 5, 5),
        ({"pool_cls": Threads, "concurrency": 2}, 50, 4),
        ({"pool_cls": Prefork, "concurrency": 40}, 50, None),
    ],
)
def test_the_tasks_of_one_process_share_a_quarter_as_many_connections(
    options: dict[str, Any], kept: int, places: int | None
) -> None:
    flask, outbox = Flask("shop"), Outbox()
    engine = sa.create_engine("sqlite:////of/nobody.db", poolclass=sa.QueuePool, pool_size=kept)
    outbox.init_app(flask, metadata=sa.MetaData(), engine=engine)
    started(flask, **options)
    turns = flask.extensions["outbox"].runtime.database._turns
    assert (turns and turns.places) == places


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"pool_cls": Threads, "max_concurrency": 4}, "this pool cannot grow, and --autoscale"),
        ({"pool_cls": Prefork, "max_concurrency": 4}, None),
        ({"pool_start_method": "spawn"}, "worker_pool_start_method is not fork"),
        ({"pool_start_method": "fork"}, None),
    ],
)
def test_options_with_which_nothing_runs_are_told_of(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any], told: str | None
) -> None:
    started(flask_app(), **options)
    assert [told is not None and told in one.getMessage() for one in caplog.records] == (
        [True] if told else []
    )


@pytest.mark.parametrize(("remapped", "warnings"), [("SIGQUIT", 1), (None, 0)])
def test_a_sigterm_that_ends_tasks_in_their_windows_is_told_of(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    remapped: str | None,
    warnings: int,
) -> None:
    monkeypatch.delenv("REMAP_SIGTERM", raising=False)
    if remapped:
        monkeypatch.setenv("REMAP_SIGTERM", remapped)
    started(flask_app())
    found = [one for one in caplog.records if "REMAP_SIGTERM is SIGQUIT" in one.getMessage()]
    assert [one.levelname for one in found] == ["WARNING"] * warnings


def test_settings_after_init_app_are_told_of_without_their_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flask = flask_app()
    state = flask.extensions["outbox"]
    assert late_settings(state.runtime) == []
    flask.config.update(OUTBOX_WINDOW=3, OUTBOX_SLOTS=9, MAIL_PASSWORD="secret", MAIL_PORT=2525)
    started(flask)
    [line] = late_settings(state.runtime)
    assert "OUTBOX_SLOTS, OUTBOX_WINDOW, MAIL_" in line
    assert "secret" not in line
    assert line in caplog.text
    flask.config["OUTBOX_WINDOWS"] = 3
    assert "is wrong: " in late_settings(state.runtime)[0]


GEVENT = "celery.concurrency.gevent:TaskPool"
EVENTLET = "celery.concurrency.eventlet:TaskPool"


@pytest.mark.parametrize(
    ("url", "module", "told"),
    [
        ("postgresql+psycopg://localhost/x", None, None),
        ("mysql+pymysql://localhost/x", None, None),
        ("mysql+mysqldb://localhost/x", pymysql, "use mysql+pymysql://"),
        ("postgresql+psycopg2://localhost/x", None, "call psycogreen.gevent.patch_psycopg()"),
    ],
)
def test_a_driver_that_keeps_greenlets_waiting_is_told_of(
    url: str, module: Any, told: str | None
) -> None:
    for package in ("gevent", *(["psycopg2"] if "psycopg2" in url else [])):
        pytest.importorskip(package)
    engine = sa.create_engine(url, module=module)
    # The test's own process is not patched.
    patched, *waiting = blocked(GEVENT, engine)
    assert "sockets are not patched: start the worker with -P gevent" in patched
    assert [told is not None and told in line for line in waiting] == [True] * bool(told)
    assert blocked("celery.concurrency.prefork:TaskPool", engine) == []


def test_psycopg2_that_waits_by_a_callback_keeps_nobody_waiting() -> None:
    extensions: Any = pytest.importorskip("psycopg2.extensions")
    engine = sa.create_engine("postgresql+psycopg2://localhost/x")
    extensions.set_wait_callback(print)
    try:
        assert waiting_driver(engine) == []
    finally:
        extensions.set_wait_callback(None)


def test_pools_of_greenlets_are_known_by_either_name() -> None:
    names = ("gevent", GEVENT, "eventlet", EVENTLET, "threads", "solo")
    assert [name for name in names if is_gevent(name)] == ["gevent", GEVENT]
    assert [name for name in names if is_eventlet(name)] == ["eventlet", EVENTLET]


@pytest.mark.parametrize("chosen", [None, ["outbox.normal", "jobs"]])
def test_a_worker_with_eventlet_takes_no_task_of_ours_and_says_why(
    caplog: pytest.LogCaptureFixture, chosen: list[str] | None
) -> None:
    eventlet = type("TaskPool", (), {"__module__": EVENTLET.partition(":")[0]})
    celery = started(flask_app(), pool_cls=eventlet, queues=chosen)
    assert set(celery.amqp.queues.consume_from) == {"jobs" if chosen else "celery"}
    assert [one.getMessage() for one in caplog.records] == [f"outbox: {NO_EVENTLET}"]
    caplog.clear()
    started(flask_app(), pool_cls=eventlet, queues=["jobs"])
    assert caplog.records == []
