"""Messages that no Celery publishes: each of these kinds ended a worker, or had it connect anew.

They are forged on the broker's own level, below everything that would refuse to send them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import amqp
import redis

from tests.support.servers.brokers.broker import Broker
from tests.support.servers.brokers.rabbitmq import RabbitMQ
from tests.support.servers.brokers.redis import RedisServer

SECRET = "private-content"
"""Stands in each of them, and belongs in no log."""

_MISSING = object()


@dataclass(frozen=True, kw_only=True)
class Forged:
    """A message as a broker keeps it."""

    headers: Mapping[str, Any]
    body: bytes
    content_type: str | None = "application/json"
    content_encoding: str = "utf-8"
    properties: Mapping[str, Any] = field(default_factory=dict)

    def envelope(self, queue: str) -> bytes:
        """Return it as Celery keeps it in a list of Redis."""
        properties = {
            "correlation_id": "x", "reply_to": "", "delivery_mode": 2, "priority": 0,
            "delivery_info": {"exchange": "", "routing_key": queue}, "body_encoding": "base64",
            "delivery_tag": str(uuid4()), **self.properties,
        }  # fmt: skip
        whole = {
            "body": base64.b64encode(self.body).decode(),
            "content-encoding": self.content_encoding,
            "content-type": self.content_type,
            "headers": dict(self.headers),
            "properties": properties,
        }
        return json.dumps(whole).encode()


def put(broker: Broker, queue: str, *messages: Forged) -> None:
    """Append them to a queue of a real broker."""
    if isinstance(broker, RedisServer):
        with redis.Redis.from_url(broker.url) as client:
            for message in messages:
                client.lpush(queue, message.envelope(queue))
        return
    assert isinstance(broker, RabbitMQ)
    with amqp.Connection(f"127.0.0.1:{broker.port}", userid="guest", password="guest") as opened:
        for message in messages:
            kind = {} if message.content_type is None else {"content_type": message.content_type}
            opened.channel().basic_publish(
                amqp.Message(
                    message.body,
                    application_headers=dict(message.headers),
                    content_encoding=message.content_encoding,
                    **kind,
                ),
                routing_key=queue,
            )


def headers(**changed: Any) -> dict[str, Any]:
    """Return the headers of a good send task, but for what is changed."""
    good = {
        "lang": "py", "task": "outbox.send", "id": str(uuid4()), "root_id": "x", "parent_id": None,
        "group": None, "retries": 0, "timelimit": [None, None], "argsrepr": SECRET,
        "kwargsrepr": "", "origin": "forged", "eta": None, "expires": None, "ignore_result": True,
    }  # fmt: skip
    return {k: v for k, v in {**good, **changed}.items() if v is not _MISSING}


def body(content: Any = ((SECRET,), {}, {})) -> bytes:
    """Return a body, by default one that is good."""
    return json.dumps(content).encode()


_HEADERS: tuple[dict[str, Any], ...] = (
    {"timelimit": SECRET},
    {"timelimit": 5},
    {"timelimit": ["a", "b"]},
    {"timelimit": [1, 2, 3]},
    {"timelimit": {"a": 1}},
    {"timelimit": [[1], None]},
    {"timelimit": [-5, -5]},
    {"id": [SECRET]},
    {"id": {"a": 1}},
    {"id": None},
    {"id": "a\nforged line"},
    {"id": _MISSING},
    {"shadow": [SECRET]},
    {"stamped_headers": 5},
    {"expires": 5},
    {"eta": [SECRET]},
    {"eta": "9999-12-31T23:59:59-14:00"},
    {"task": [SECRET]},
    {"task": {"a": 1}},
    {"task": 5},
    {"task": "outbox.nothing", "id": _MISSING},
)
_BODIES: tuple[Any, ...] = (SECRET, 5, None, True, [], [1], {"a": 1}, [[], {}, {}, 1], [1, 2, 3])
_OLD = {"task": "outbox.send", "args": [SECRET], "kwargs": {}}  # Celery's first protocol

KINDS: tuple[Forged, ...] = (
    *(Forged(headers=headers(**changed), body=body()) for changed in _HEADERS),
    *(Forged(headers=headers(), body=body(content)) for content in _BODIES),
    Forged(headers=headers(), body=b""),
    Forged(headers=headers(), body=b"\xff" + SECRET.encode()),
    Forged(headers=headers(), body=b"[" * 100_000),
    Forged(headers=headers(), body=body(), content_type="application/data"),
    Forged(headers=headers(), body=body(), content_type="application/x-python-serialize"),
    Forged(headers=headers(), body=body(), content_type=None),
    Forged(headers=headers(), body=b"", content_type="application/data", content_encoding="binary"),
    Forged(headers={}, body=body({**_OLD, "id": "x", "timelimit": SECRET})),
    Forged(headers={}, body=body({**_OLD, "id": "x", "task": [SECRET]})),
    Forged(headers={}, body=body({**_OLD, "id": [SECRET]})),
)
