"""Publishes task messages, with every wait for the broker bounded."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any

from celery import Celery
from kombu.connection import Connection
from kombu.exceptions import OperationalError
from kombu.messaging import Producer

from .own_task import direct, serializer
from .queue_length import waiting

SECONDS = 0.5
"""The longest wait for one socket operation. Celery's own defaults block for minutes."""

TRANSIENT = 1
"""AMQP's delivery mode for a message that is not written to disk: a sweep replaces a lost one."""

OWN = "outbox_own"
"""A header of the messages that the outbox itself publishes. Beat's messages lack it."""

ORIGIN = "outbox_origin"
"""A header with the id of the outbox whose task it is, where its publisher knows it."""

BROKER_ERRORS = (OSError, OperationalError)
"""What `Publisher.send` raises where the broker cannot be reached, refuses, or stays silent."""

_RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}


class Publisher:
    """Sends task messages over a connection of its own, one for each process."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._process = 0
        self._producer: Producer | None = None

    def close(self) -> None:
        """Close the connection; the next message opens another."""
        with self._lock:
            self._drop()

    def send(self, task: str, queue: str, *args: str, most: int, origin: str = "") -> bool:
        """Publish a task unless `most` messages wait in its queue; return whether it was published.

        Any error is raised within about two seconds. Whether the message was delivered is then
        uncertain. This does no harm, because only the table is trusted.
        """
        with self._lock:
            try:
                producer = self._ready()
                if self._waiting(producer, queue) >= most:
                    return False
                self._app.send_task(
                    task,
                    args=args,
                    **direct(queue),
                    serializer=serializer(self._app),
                    time_limit=None,
                    soft_time_limit=None,
                    producer=producer,
                    retry=True,
                    retry_policy=_RETRY,
                    ignore_result=True,
                    delivery_mode=TRANSIENT,
                    headers={OWN: True, ORIGIN: origin},
                )
            except Exception:
                self._drop()
                raise
            return True

    def _waiting(self, producer: Producer, queue: str) -> int:
        """Return how many messages wait; ask again over a new connection if this one is gone."""
        ask: Any = producer.connection.ensure(producer, waiting, **_RETRY)
        return int(ask(self._app, producer, queue))

    def renew_lock(self) -> None:
        """Make a new lock after a fork: another thread of the parent may have held the old one."""
        self._lock = threading.Lock()

    def _ready(self) -> Producer:
        if self._producer is None or self._process != os.getpid():
            # An inherited connection belongs to the parent: forget it, and do not close it.
            self._process = os.getpid()
            self._producer = Producer(self._connect())  # type: ignore[no-untyped-call]
        return self._producer

    def _connect(self) -> Connection:
        connection: Connection = self._app.connection_for_write(
            connect_timeout=SECONDS,
            transport_options=_bounded(str(self._app.conf.broker_write_url)),
        )
        return connection

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            # A connection that failed may also fail to close. Nothing more is lost by that.
            with suppress(Exception):
                producer.connection.release()


def _bounded(url: str) -> dict[str, Any]:
    scheme, _, _ = url.partition(":")
    if "redis" in scheme or "sentinel" in scheme:
        return {
            "socket_connect_timeout": SECONDS,
            "socket_timeout": SECONDS,
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0,
            "interval_max": 0,
        }
    # Without confirms AMQP says nothing of a message: a silent broker would look like a quick one.
    return {"read_timeout": SECONDS, "write_timeout": SECONDS, "confirm_publish": True}
