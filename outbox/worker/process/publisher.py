"""Publishing with every wait bounded, whatever the broker does."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any

from celery import Celery
from kombu.connection import Connection
from kombu.messaging import Producer

from .queue_length import waiting

SECONDS = 0.5
"""The longest wait for one socket operation. Celery's own defaults block for minutes."""

TRANSIENT = 1
"""AMQP's delivery mode of a message that is not written to disk: what is lost comes again."""

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

    def send(self, task: str, queue: str, *args: str, most: int) -> bool:
        """Publish a task unless `most` messages wait in its queue; return whether it was published.

        Any error comes out within about two seconds, and delivery is uncertain then. Nothing that
        is published is trusted: the table is.
        """
        with self._lock:
            try:
                producer = self._ready()
                if self._waiting(producer, queue) >= most:
                    return False
                self._app.send_task(
                    task,
                    args=args,
                    queue=queue,
                    producer=producer,
                    retry=True,
                    retry_policy=_RETRY,
                    ignore_result=True,
                    delivery_mode=TRANSIENT,
                )
            except Exception:
                self._drop()
                raise
            return True

    def _waiting(self, producer: Producer, queue: str) -> int:
        """Ask how many wait; over a connection that is gone, once more over a new one."""
        ask: Any = producer.connection.ensure(producer, waiting, **_RETRY)
        return int(ask(self._app, producer, queue))

    def renew_lock(self) -> None:
        """In a forked child: the parent's other threads are gone, and with them their unlocking."""
        self._lock = threading.Lock()

    def _ready(self) -> Producer:
        if self._producer is None or self._process != os.getpid():
            # An inherited connection is the parent's: it is forgotten, not closed.
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
            # A connection that failed may fail to close, and nothing more is lost by that.
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
    # Unless asked, AMQP tells nothing of a message: a silent broker would be taken for a quick one.
    return {"read_timeout": SECONDS, "write_timeout": SECONDS, "confirm_publish": True}
