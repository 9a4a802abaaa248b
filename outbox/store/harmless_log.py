"""Logs where an error of the app's own logging must not cost what is being done."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded


class HarmlessLog(logging.LoggerAdapter[logging.Logger]):
    """Logs where a known result is in hand, which an error in a log handler must not cost.

    An app's filter may raise: one that asks for Flask's request does so outside of requests.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log as a logger does; an error in a filter or handler of the app changes nothing."""
        try:
            super().log(level, msg, *args, **{**kwargs, "stacklevel": 2})
        except SoftTimeLimitExceeded:  # the task's, and not the handler's
            raise
        except Exception:  # noqa: BLE001, S110  (where could it be told?)
            pass

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Leave a line's own values, which an adapter would replace."""
        return msg, kwargs


harmless_log = HarmlessLog(logging.getLogger("outbox"))
