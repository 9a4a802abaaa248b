"""Leaves a mark in the table for each minute in which beat's tasks run: `check` looks for it."""

from __future__ import annotations

import logging

from ..store.connection.clock_skew import seconds_ahead, skew_warnings
from ..store.control import beat
from .process.runtime import Runtime

_log = logging.getLogger("outbox")


def note_beat(runtime: Runtime) -> None:
    """Note that a task runs that beat asked for; each process does so once in `beat.EVERY` seconds.

    The first time, a clock that differs from the database's is logged. Raises SQLAlchemyError.
    """
    now = runtime.clock()
    if now < runtime.beat_noted_until:
        return
    is_first, runtime.beat_noted_until = not runtime.beat_noted_until, now + beat.EVERY
    runtime.database.run(lambda connection: beat.note(connection, runtime.database))
    if is_first:
        for text in skew_warnings(seconds_ahead(runtime.database)):
            _log.warning("outbox: %s", text)
