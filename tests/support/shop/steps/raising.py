"""A worker's process that an exception befalls while it sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from outbox.domain.delivery.transaction import Envelope, Transaction
from outbox.smtp.connection import Connection


def raise_when(
    patch: pytest.MonkeyPatch, is_time: Callable[[Envelope], bool], error: type[BaseException]
) -> None:
    """Have the sending of an envelope raise where it is time, before it says a word.

    This is a double: no server makes this process raise, and Celery's cold shutdown does.
    """
    send = Connection.send

    def send_or_raise(self: Connection, envelope: Envelope, *more: Any) -> Transaction:
        if is_time(envelope):
            raise error
        return send(self, envelope, *more)

    patch.setattr(Connection, "send", send_or_raise)
