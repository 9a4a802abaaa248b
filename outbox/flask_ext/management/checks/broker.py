"""Examines the broker: is a Redis full, and does it throw queued tasks away then?"""

from __future__ import annotations

from typing import Any, NamedTuple

from celery import Celery
from kombu.connection import Connection

from ....worker.fleet.inquiry import NoAnswer, ask
from .codes import Code
from .finding import Finding, error, ok, warn

_SAFE = "noeviction"


class _Memory(NamedTuple):
    """What a Redis tells of its memory; "" and 0 where it does not."""

    policy: str
    used: int = 0
    most: int = 0  # 0: there is no limit

    @property
    def is_full(self) -> bool:
        return 0 < self.most <= self.used


_ROOM = (
    "raise maxmemory, or remove what else it keeps; no email is lost by it, but they wait, and"
    " workers cannot be asked"
)


def broker_findings(app: Celery) -> list[Finding]:
    """Return the finding on a Redis; none for another broker, or for one that does not answer.

    The findings on the fleet tell of a broker that does not answer. With `task_always_eager` none
    is needed.
    """
    if app.conf.task_always_eager:
        return []
    try:
        memory = ask(app, _memory)
    except NoAnswer:
        return []
    if memory is None:
        return []
    policy = memory.policy
    if policy == "":
        text = "Redis does not show its maxmemory-policy (ACL or provider)"
        return [warn(f"{text}: see to it that it is {_SAFE}", Code.BROKER_MEMORY)]
    if policy == _SAFE and memory.is_full:
        text = f"Redis's memory is full (maxmemory {memory.most}), so it takes no task: {_ROOM}"
        return [error(text, Code.BROKER_MEMORY)]
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


def _memory(connection: Connection) -> _Memory | None:
    """Return what a Redis tells of its memory; None for another broker."""
    if connection.transport.driver_type != "redis":
        return None
    from redis.exceptions import ResponseError  # it is a fifth of the time of `import outbox`

    channel: Any = connection.default_channel
    client: Any = channel.client
    # A provider may forbid CONFIG, and an old server's INFO may lack the line.
    for question, word in ((client.info, "memory"), (client.config_get, "maxmemory-policy")):
        try:
            found: dict[str, Any] = question(word)
        except ResponseError:
            continue
        for name in ("maxmemory_policy", "maxmemory-policy"):
            if found.get(name):
                used, most = (int(found.get(key) or 0) for key in ("used_memory", "maxmemory"))
                return _Memory(str(found[name]), used, most)
    return _Memory("")
