"""`configure` adds the outbox to a Celery app and takes nothing away, whatever comes first."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery import VERSION, Celery
from celery.beat import ScheduleEntry, Service
from celery.signals import beat_init, celeryd_init
from flask import Flask
from kombu import entity

from outbox.celery_config import QUEUES, SteadyScheduler, beat_schedule, configure, queues

Queue: Any = entity.Queue
Exchange: Any = entity.Exchange
OURS = {queue.name for queue in QUEUES} - {"celery"}
STEADY = "outbox.celery_config:SteadyScheduler"


def app_with(**settings: Any) -> Celery:
    """Return a Celery app that has not read its settings yet."""
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.update(settings)
    return app


def flask_app(**settings: Any) -> Flask:
    flask = Flask("shop")
    flask.config.update(settings)
    return flask


def configured(**settings: Any) -> Celery:
    celery = app_with(**settings)
    configure(celery, flask_app())
    return celery


def consumed(celery: Celery) -> set[str]:
    """Return the queues to which a worker without -Q listens."""
    return set(celery.amqp.queues.consume_from)


def test_it_adds_queues_entries_and_beat_s_scheduler() -> None:
    celery = configured()
    assert consumed(celery) == OURS | {"celery"}
    assert celery.conf.beat_schedule == beat_schedule()
    assert celery.conf.beat_scheduler == STEADY


def test_the_interval_is_flask_s_setting_at_the_time_when_celery_reads_its_own() -> None:
    celery, flask = app_with(), flask_app()
    configure(celery, flask)
    flask.config["OUTBOX_SWEEP_INTERVAL"] = 7.0
    assert celery.conf.beat_schedule["outbox.sweep"]["schedule"] == 7.0


@pytest.mark.parametrize(
    "found",
    [
        [Queue("mine", routing_key="mine"), Queue("outbox.low", routing_key="low.mine")],
        (Queue("mine", routing_key="mine"), Queue("outbox.low", routing_key="low.mine")),
        {"mine": {"routing_key": "mine"}, "outbox.low": {"routing_key": "low.mine"}},
    ],
    ids=["list", "tuple", "dict"],
)
def test_queues_that_are_there_stay_as_they_are(found: Any) -> None:
    celery = configured(task_queues=found)
    assert consumed(celery) == OURS | {"mine"}
    assert celery.amqp.queues["outbox.low"].routing_key == "low.mine"


def test_the_default_queue_is_declared_as_celery_itself_would() -> None:
    settings = {
        "task_default_queue": "jobs",
        "task_default_exchange": "work",
        "task_default_exchange_type": "topic",
        "task_default_routing_key": "jobs.default",
        "task_default_queue_type": "quorum",
    }
    alone, ours = app_with(**settings), configured(**settings)
    assert consumed(ours) == OURS | {"jobs"}
    facts = [
        (one.exchange.name, one.exchange.type, one.routing_key, one.queue_arguments)
        for one in (alone.amqp.queues["jobs"], ours.amqp.queues["jobs"])
    ]
    kind = {"x-queue-type": "quorum"} if VERSION >= (5, 5) else None  # older ones know classic only
    assert facts[0] == facts[1] == ("work", "topic", "jobs.default", kind)
    assert ours.amqp.default_queue.name == "jobs"


def test_two_apps_do_not_share_a_queue_s_declaration() -> None:
    """Celery writes its default exchange and arguments into the queues that it is given."""
    first, second = configured(task_default_exchange="one"), configured(task_queue_max_priority=9)
    assert first.amqp.queues["outbox.low"].exchange.name == "one"
    low = second.amqp.queues["outbox.low"]
    assert (low.exchange.name, low.queue_arguments) == ("celery", {"x-max-priority": 9})
    assert not first.amqp.queues["outbox.low"].queue_arguments


class _Later:
    task_queues = (Queue("later", routing_key="later"),)
    beat_schedule = {"mine": {"task": "mine", "schedule": 5.0}}  # noqa: RUF012


def _loaded_before(celery: Celery, flask: Flask) -> None:
    celery.config_from_object(_Later)
    assert celery.conf.beat_schedule
    configure(celery, flask)


def _config_from_object_after(celery: Celery, flask: Flask) -> None:
    configure(celery, flask)
    celery.config_from_object(_Later)


def _assigned_after(celery: Celery, flask: Flask) -> None:
    configure(celery, flask)
    celery.conf.task_queues = _Later.task_queues
    celery.conf.update(beat_schedule=_Later.beat_schedule)


def _read_again(celery: Celery, flask: Flask) -> None:
    configure(celery, flask)
    assert celery.conf.beat_schedule == beat_schedule()
    celery.config_from_object(_Later)


def _assigned_after_it_was_read(celery: Celery, flask: Flask) -> None:
    """Only the start of a worker or of beat can see this."""
    configure(celery, flask)
    assert celery.conf.beat_schedule == beat_schedule()
    _assigned_after(celery, flask)
    celeryd_init.send(sender="host", instance=SimpleNamespace(app=celery), conf=celery.conf)


def _assigned_before_beat(celery: Celery, flask: Flask) -> None:
    configure(celery, flask)
    assert celery.conf.beat_schedule == beat_schedule()
    _assigned_after(celery, flask)
    beat_init.send(sender=Service(celery))


def _queues_made_before(celery: Celery, flask: Flask) -> None:
    _loaded_before(celery, Flask("another"))
    assert celery.amqp.queues
    configure(celery, flask)


@pytest.mark.parametrize(
    "order",
    [
        _loaded_before,
        _config_from_object_after,
        _assigned_after,
        _read_again,
        _assigned_after_it_was_read,
        _assigned_before_beat,
        _queues_made_before,
    ],
)
def test_it_may_come_before_and_after_what_sets_celery_up(order: Any) -> None:
    celery = app_with()
    order(celery, flask_app())
    assert consumed(celery) == OURS | {"later"}
    assert set(celery.conf.beat_schedule) == {"mine", "outbox.sweep", "outbox.purge"}


def test_queues_that_were_made_before_get_ours_and_those_of_minus_q_stay_chosen() -> None:
    celery, chosen = app_with(), app_with()
    assert consumed(celery) == consumed(chosen) == {"celery"}
    chosen.amqp.queues.select(["celery"])
    for app in (celery, chosen):
        configure(app, flask_app())
    assert (consumed(celery), consumed(chosen)) == (OURS | {"celery"}, {"celery"})
    assert set(chosen.amqp.queues) >= OURS


def test_settings_with_a_prefix_and_of_the_old_kind_are_read() -> None:
    prefixed, old = app_with(), Celery("old", set_as_current=False)
    prefixed.config_from_object({"CELERY_TASK_DEFAULT_QUEUE": "named"}, namespace="CELERY")
    old.config_from_object({"CELERY_DEFAULT_QUEUE": "named"})
    for celery in (prefixed, old):
        configure(celery, flask_app())
        assert consumed(celery) == OURS | {"named"}
        assert "outbox.sweep" in celery.conf.beat_schedule


def test_a_second_call_changes_nothing() -> None:
    celery, flask = app_with(task_queues=[Queue("mine")]), flask_app()
    before: Any = None
    for _ in range(3):
        configure(celery, flask)
        made = ([q.name for q in celery.conf.task_queues], dict(celery.conf.beat_schedule))
        assert before in (None, made)
        before = made
    assert len(before[0]) == len(OURS) + 1


class _Entry(ScheduleEntry):  # type: ignore[misc]
    pass


@pytest.mark.parametrize(
    "mine",
    [
        {"task": "outbox.sweep", "schedule": timedelta(seconds=3)},
        _Entry(name="mine", task="outbox.sweep", schedule=3.0, app=app_with()),
    ],
)
def test_a_sweep_of_your_own_schedule_is_not_doubled(mine: Any) -> None:
    celery = configured(beat_schedule={"mine": mine})
    assert set(celery.conf.beat_schedule) == {"mine", "outbox.purge"}


@pytest.mark.parametrize("taken", [["outbox.sweep"], ["outbox.sweep of the outbox"]])
def test_an_entry_of_your_own_with_our_name_stays_and_ours_gets_another(taken: list[str]) -> None:
    mine = {"task": "shop.sweep_the_floor", "schedule": 2.0}
    names = {"outbox.sweep", *taken}
    celery, flask = app_with(beat_schedule=dict.fromkeys(names, mine)), flask_app()
    for _ in range(2):
        configure(celery, flask)
        found = celery.conf.beat_schedule
        assert all(found[name] == mine for name in names)
        assert sorted(entry["task"] for name, entry in found.items() if name not in names) == [
            *("outbox.purge", "outbox.sweep"),
        ]


def test_periodic_tasks_may_be_added_when_celery_is_set_up() -> None:
    celery = app_with()

    @celery.task(name="mine", shared=False)
    def mine() -> None: ...

    def add(sender: Celery, **_: Any) -> None:
        sender.add_periodic_task(5.0, mine.s(), name="mine")

    celery.on_after_configure.connect(add, weak=False)
    configure(celery, flask_app())
    celery.add_periodic_task(6.0, mine.s(), name="mine too")
    assert set(celery.conf.beat_schedule) == {"mine", "mine too", "outbox.sweep", "outbox.purge"}


def test_a_scheduler_of_your_own_stays() -> None:
    assert configured(beat_scheduler="redbeat.RedBeatScheduler").conf.beat_scheduler == (
        "redbeat.RedBeatScheduler"
    )
    assert SteadyScheduler.__name__ in STEADY


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        (["pickle"], ["pickle", "json"]),
        (("application/json",), ("application/json",)),
        (["json", "yaml"], ["json", "yaml"]),
        (["auth"], ["auth"]),  # only what is signed
    ],
)
def test_json_is_accepted_where_nothing_of_ours_would_be(given: Any, accepted: Any) -> None:
    assert configured(accept_content=given).conf.accept_content == accepted


def test_settings_of_your_own_tasks_are_left_alone() -> None:
    mine = {
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_serializer": "yaml",
        "task_routes": {"*": {"queue": "mine"}},
        "task_time_limit": 30,
        "worker_prefetch_multiplier": 8,
        "task_ignore_result": False,
        "timezone": "Europe/Berlin",
        "enable_utc": False,
    }
    celery = configured(**mine)
    assert {name: celery.conf[name] for name in mine} == mine


def test_the_settings_one_by_one_name_another_default_queue_too() -> None:
    exchange = Exchange("work", "topic")
    celery = app_with(task_queues=queues("jobs"), task_default_queue="jobs")
    assert consumed(celery) == OURS | {"jobs"}
    mine = Queue("jobs", exchange, "jobs.#")
    celery = app_with(task_queues=queues(mine), task_default_queue="jobs")
    assert celery.amqp.queues["jobs"].exchange == exchange
