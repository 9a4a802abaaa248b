"""What is no garbled message: all that Celery itself publishes, in both of its protocols."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery, signature
from kombu.message import Message

from outbox.worker.broker.task_message import address_fault, fault

message: Any = Message  # its types are not told
TASK = "outbox.send"
LATER = datetime.now(UTC) + timedelta(minutes=5)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"countdown": 5},
    {"eta": LATER, "expires": LATER},
    {"expires": 60},
    {"time_limit": 30, "soft_time_limit": 20.5},
    {"shadow": "another name", "retries": 3, "group_id": "g", "root_id": "r", "parent_id": "p"},
    {"callbacks": [signature(TASK)], "errbacks": [signature(TASK)], "chain": [signature(TASK)]},
    {"chord": signature(TASK)},
]


def published(protocol: int, options: dict[str, Any]) -> Any:
    """Return a message as a worker gets it."""
    amqp: Any = Celery().amqp
    options = dict(options)
    if protocol == 1:
        options = {k: v for k, v in options.items() if k not in ("chain", "root_id", "parent_id")}
    made = amqp.task_protocols[protocol]("an-id", TASK, ("a token",), {}, **options)
    return forged(made.headers, made.body)


def forged(headers: Any, body: Any) -> Any:
    return message(
        body=json.dumps(body).encode(),
        headers=headers,
        content_type="application/json",
        content_encoding="utf-8",
        accept={"application/json"},
    )


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("protocol", [1, 2])
def test_what_celery_publishes_is_taken(protocol: int, options: dict[str, Any]) -> None:
    made = published(protocol, options)
    assert address_fault(made, {TASK}) is None
    body = made.payload if protocol == 1 else None  # as Celery gives it to a strategy
    assert fault(made, body) is None


def test_an_unknown_task_and_a_message_that_is_none_are_left_to_celery() -> None:
    assert address_fault(published(2, {}), ()) is None
    assert address_fault(published(1, {}), ()) is None
    assert address_fault(forged({}, {"no": "task"}), ()) is None
    assert address_fault(forged({}, [1, 2]), ()) is None
    assert address_fault(message(body=b"no JSON", headers={}), ()) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timelimit", [float("nan"), None]),
        ("timelimit", [True, None]),
        ("id", ""),
        ("id", "x" * 256),
        ("retries", -1),
        ("stamps", []),
        ("origin", 5),
    ],
)
def test_the_part_that_is_garbled_is_named(name: str, value: Any) -> None:
    made = published(2, {})
    made.headers[name] = value
    assert fault(made, None) == name
