"""Examines the broker: does a Redis throw queued tasks away when its memory is full?"""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.connection import Connection

from ....worker.fleet.inquiry import NoAnswer, asked
from .codes import Code
from .finding import Finding, ok, warn

_SAFE = "noeviction"


def broker_findings(app: Celery) -> list[Finding]:
    """Return the finding on a Redis; none for another broker, or for one that does not answer.

    The findings on the fleet tell of a broker that does not answer. With `task_always_eager` none
    is needed.
    """
    if app.conf.task_always_eager:
        return []
    try:
        policy = asked(app, _policy)
    except NoAnswer:
        return []
    if policy is None:
        return []
    if policy == "":
        text = "Redis does not show its maxmemory-policy (ACL or provider)"
        return [warn(f"{text}: see to it that it is {_SAFE}", Code.BROKER_MEMORY)]
    if policy == _SAFE:
        return [
            ok(f"Redis keeps queued tasks when its memory is full ({_SAFE})", Code.BROKER_MEMORY)
        ]
    return [
        warn(
            f"Redis may throw keys away when its memory is full (maxmemory-policy {policy}), queued"
            f" tasks among them: set maxmemory-policy {_SAFE}. No email is lost by it, but each"
            " waits for its lease",
            Code.BROKER_MEMORY,
        )
    ]


def _policy(connection: Connection) -> str | None:
    """Return the policy; "" where Redis does not show it, and None for another broker."""
    if connection.transport.driver_type != "redis":
        return None
    from redis.exceptions import ResponseError  # it is a fifth of the time of `import outbox`

    channel: Any = connection.default_channel
    client: Any = channel.client
    # A provider may forbid CONFIG, and an old server's INFO may lack the line.
    for ask, word in ((client.info, "memory"), (client.config_get, "maxmemory-policy")):
        try:
            told: dict[str, Any] = ask(word)
        except ResponseError:
            continue
        for name in ("maxmemory_policy", "maxmemory-policy"):
            if told.get(name):
                return str(told[name])
    return ""
