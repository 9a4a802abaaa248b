"""The outbox's tasks keep their own options, whatever an app says of its own tasks."""

from __future__ import annotations

from typing import Any

import pytest
from celery import VERSION, Celery, Task
from kombu import entity

from outbox import Priority
from outbox.worker.broker.publisher import Publisher
from outbox.worker.broker.queue_length import waiting
from outbox.worker.broker.queues import LOW_QUEUE, SEND_QUEUES, SWEEP_QUEUE

Queue: Any = entity.Queue
BULK = SEND_QUEUES[Priority.BULK]
URGENT = SEND_QUEUES[Priority.URGENT]
OURS = ("outbox.sweep", "outbox.send", "outbox.purge")

pytestmark = pytest.mark.filterwarnings("ignore:.*task_always_eager")


class Intruder(Task):  # type: ignore[misc]
    """An app's own base of its tasks, which would do something in each of ours."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("called in a task of the outbox")


def app_with(url: str = "memory://", **settings: Any) -> Celery:
    app = Celery("shop", broker=url, set_as_current=False, task_cls=Intruder)
    app.conf.update(settings)
    return app


HARSH: dict[str, Any] = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "task_retry_on_worker_lost": True,
    "task_default_rate_limit": "1/h",
    "task_time_limit": 30,
    "task_soft_time_limit": 20,
    "task_serializer": "pickle",
    "task_annotations": {"*": {"acks_late": True, "rate_limit": "2/h", "time_limit": 3}},
}


@pytest.mark.parametrize("name", OURS)
def test_settings_for_all_tasks_do_not_hold_for_ours(name: str) -> None:
    task = app_with(**HARSH).tasks[name]
    assert (task.acks_late, task.reject_on_worker_lost, task.rate_limit) == (False, False, 0)
    assert (task.time_limit, task.soft_time_limit) == (None, None)
    assert task.serializer == "json"
    assert task.ignore_result
    assert not isinstance(task, Intruder)


def test_they_hold_for_the_app_s_own_tasks() -> None:
    app = app_with(**HARSH)

    @app.task(name="mine", shared=False)
    def mine() -> None: ...

    assert (mine.acks_late, mine.rate_limit, mine.time_limit) == (True, "2/h", 3)
    assert isinstance(mine, Intruder)


def test_what_is_said_of_a_task_of_ours_by_name_holds() -> None:
    said = {"outbox.send": {"time_limit": 4000, "acks_late": True}}
    app = app_with(task_annotations=said)
    assert (app.tasks["outbox.send"].time_limit, app.tasks["outbox.send"].acks_late) == (4000, True)
    assert app.tasks["outbox.sweep"].time_limit is None


@pytest.mark.parametrize(
    ("url", "late"),
    [
        ("redis://localhost", False),
        ("rediss://localhost", False),
        ("sentinel://localhost", False),
        ("amqp://localhost", True),
        ("AMQPS://localhost", True),
        ("pyamqp://localhost;pyamqp://other", True),
        (["amqp://localhost", "amqp://other"], True),
        ("localhost", True),  # Celery's default transport
    ],
)
def test_the_broker_decides_when_a_task_of_ours_is_acknowledged(url: Any, late: bool) -> None:
    app = app_with(task_acks_late=not late)
    app.conf.broker_url = url
    assert app.tasks["outbox.send"].acks_late is late


@pytest.mark.parametrize(
    ("said", "used"),
    [
        ("json", "json"),
        ("yaml", "yaml"),
        ("pickle", "json"),
        ("application/x-python-serialize", "json"),
    ],
)
def test_our_messages_are_written_as_the_app_s_own_but_never_pickled(said: str, used: str) -> None:
    assert app_with(task_serializer=said).tasks["outbox.send"].serializer == used


def _astray(name: str, *_: Any, **__: Any) -> dict[str, Any]:
    return {"exchange": "elsewhere", "exchange_type": "topic", "routing_key": "lost"}


@pytest.mark.parametrize(
    "routes",
    [
        {"*": {"queue": "mine", "exchange": "elsewhere", "routing_key": "lost"}},
        [("outbox.*", {"queue": "mine", "routing_key": "lost", "exchange": "elsewhere"})],
        (_astray,),
        _astray,
    ],
    ids=["dict", "pairs", "functions", "function"],
)
def test_no_route_of_the_app_leads_our_messages_astray(routes: Any) -> None:
    names = (SWEEP_QUEUE, LOW_QUEUE, *SEND_QUEUES.values(), "mine")
    app = app_with(
        task_routes=routes if isinstance(routes, (dict, tuple)) or callable(routes) else (routes,),
        task_queues=[Queue(name, routing_key=name) for name in names],
        task_create_missing_queues=False,
        task_default_queue="mine",
        task_default_exchange_type="topic",
    )
    with app.connection_for_write() as connection:
        producer = app.amqp.Producer(connection)
        publisher = Publisher(app)
        publisher.send("outbox.send", URGENT, "a token", most=9)
        app.tasks["outbox.sweep"].delay()
        app.tasks["outbox.purge"].apply_async(queue=LOW_QUEUE)
        app.tasks["outbox.send"].apply_async(("a token",), queue=None, exchange=None)
        app.tasks["outbox.send"].apply_async(("a token",), queue=Queue(BULK))
        found = {name: waiting(app, producer, name) for name in names}
        publisher.close()
        for name in names:
            app.amqp.queues[name](producer.channel).purge()
    expected = dict.fromkeys(names, 0) | dict.fromkeys(
        (SWEEP_QUEUE, LOW_QUEUE, *SEND_QUEUES.values()), 1
    )
    assert found == expected


@pytest.mark.skipif(
    VERSION < (5, 7),
    reason="before 5.7 Celery asks for the default queue at its first message, to whatever queue",
)
def test_an_app_may_have_no_default_queue() -> None:
    app = app_with(task_queues=[Queue(URGENT)], task_create_missing_queues=False)
    Publisher(app).send("outbox.send", URGENT, "a token", most=9)
    with app.connection_for_write() as connection:
        assert app.amqp.queues[URGENT](connection.default_channel).purge() == 1


def test_a_message_of_ours_carries_no_time_limit_and_no_pickle() -> None:
    app = app_with(**HARSH)
    Publisher(app).send("outbox.send", URGENT, "a token", most=9)
    app.tasks["outbox.send"].time_limit = 99  # as a worker's start gives it to its own
    Publisher(app).send("outbox.send", URGENT, "a token", most=9)
    with app.connection_for_write() as connection:
        queue = app.amqp.queues[URGENT](connection.default_channel)
        for _ in range(2):  # before and after the app has looked its tasks up
            message = queue.get(no_ack=True)
            assert message.headers["timelimit"] == [None, None]
            assert message.content_type == "application/json"
