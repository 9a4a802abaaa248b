"""Turns a worker's log lines on sweeps that did nothing into DEBUG: beat's sweep comes each second.

Celery logs two lines for each task at INFO: it was received, and it succeeded. The second line
tells all of a sweep. It stays at INFO if the sweep claimed emails.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

_RECEIVES, _RUNS = "celery.worker.strategy", "celery.app.trace"
"""Celery's loggers of tasks that are received and of tasks that have run."""


class IdleSweeps(logging.Filter):
    """Lowers the level of these lines; they are gone where their logger shows no DEBUG."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written; celery gives its values as a mapping."""
        if record.levelno != logging.INFO or not isinstance(record.args, Mapping):
            return True
        if record.args.get("name") != "outbox.sweep" or _worked(record.args):
            return True
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def _worked(values: Mapping[str, object]) -> bool:
    """Return whether the sweep returned that it claimed emails; a received one has not run yet."""
    return values.get("return_value", "0") != "0"


_FILTER = IdleSweeps()


def lower_idle_sweeps() -> None:
    """Lower the level of these lines in this process, and in those that it forks."""
    for name in (_RECEIVES, _RUNS):
        logging.getLogger(name).addFilter(_FILTER)  # a second time changes nothing
