"""What the outbox adds to the settings of a Celery app. Nothing that is there is taken away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery import Celery
from celery.app.defaults import DEFAULTS
from kombu.entity import Exchange, Queue

from ..broker.queues import beat_schedule, own_queues

CELERYS_BEAT = "celery.beat:PersistentScheduler"
STEADY_BEAT = "outbox.celery_config:SteadyScheduler"

JSON = ("json", "application/json")
SIGNED = "auth"
"""Who accepts signed messages only must not get others accepted. Ours are signed then, too."""

_QUEUE_TYPE = "task_default_queue_type"


def add(conf: Any, config: Mapping[str, Any]) -> None:
    """Add our queues, beat's entries, its scheduler and JSON to a Celery app's loaded settings.

    `config` is Flask's. What was added before is not added again.
    """
    conf.task_queues = _queues(conf)
    conf.beat_schedule = _entries(conf.beat_schedule or {}, config)
    if conf.beat_scheduler == CELERYS_BEAT:  # not one of the app's own choice
        conf.beat_scheduler = STEADY_BEAT
    accepted = list(conf.accept_content or ())
    if accepted and not accepts_ours(accepted):
        conf.accept_content = [*accepted, "json"]


def declare(app: Celery) -> None:
    """Add our queues to those that the app has already made of its settings, if it has."""
    made = vars(app).get("amqp")
    queues = vars(made).get("queues") if made is not None else None
    if queues is None:
        return
    chosen = queues._consume_from is not None  # by -Q: what a worker listens to stays as it is
    for queue in own_queues():
        if queue.name not in queues:
            (queues.add if chosen else queues.select_add)(queue)


def accepts_ours(accepted: Any) -> bool:
    """Return whether workers that accept these contents take our messages."""
    return any(name in accepted for name in (*JSON, SIGNED))


def tasks_of(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the interval of each task in beat's schedule, by the task's name."""
    return {_part(entry, "task"): _part(entry, "schedule") for entry in schedule.values()}


def _part(entry: Any, name: str) -> Any:
    # An entry is a mapping, or an object of Celery's class.
    return entry.get(name) if isinstance(entry, Mapping) else getattr(entry, name, None)


def _entries(found: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    scheduled = tasks_of(found).keys()
    entries = dict(found)
    for key, entry in beat_schedule(config).items():
        if entry["task"] not in scheduled:
            name = key
            while name in found:  # the app has an entry of that name for another task: it stays
                name += " of the outbox"
            entries[name] = entry
    return entries


def _queues(conf: Any) -> list[Queue] | dict[str, Any]:
    found = conf.task_queues
    if isinstance(found, Mapping) and found:
        return {**found, **{one.name: one for one in own_queues() if one.name not in found}}
    # Without queues of its own an app listens to its default queue. With ours it must be named.
    there = list(found or _default(conf))
    names = {queue.name for queue in there}
    return [*there, *(queue for queue in own_queues() if queue.name not in names)]


def _default(conf: Any) -> list[Queue]:
    """Return the queue that Celery would make for a worker that is told of none."""
    if not conf.task_default_queue:
        return []
    # Before 5.5 Celery passes over this setting: its queue is a classic one all the same.
    quorum = _QUEUE_TYPE in DEFAULTS and conf.get(_QUEUE_TYPE) == "quorum"
    exchange = Exchange(  # type: ignore[no-untyped-call]
        conf.task_default_exchange, conf.task_default_exchange_type
    )
    return [
        Queue(  # type: ignore[no-untyped-call]
            conf.task_default_queue,
            exchange,
            conf.task_default_routing_key,
            queue_arguments={"x-queue-type": "quorum"} if quorum else None,
        )
    ]
