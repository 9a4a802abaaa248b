"""Sums up what was counted of the attempts, after the work that emails wait for."""

from __future__ import annotations

import logging
from math import inf

from ..store.connection.error_codes import describe
from ..store.rollup import fold
from .process.runtime import Runtime

_log = logging.getLogger("outbox")


IDLE = 60.0
"""Seconds from one look for tallies to the next in a process that sends nothing: what the last
batches counted is left to it."""


def fold_tallies(runtime: Runtime, *, is_idle: bool = False) -> None:
    """Sum tallies up, unless this process looked for them within the last `fold.EVERY` seconds.

    One that `is_idle`, and has counted nothing since, waits for `IDLE` seconds. An error keeps no
    email back: it is logged, and the tallies wait for the next time.
    """
    if runtime.clock() < runtime.folds_after + is_idle * (IDLE - fold.EVERY):
        return
    is_full = False
    try:
        is_full = fold.fold(runtime.database)
    except Exception as error:  # noqa: BLE001  (figures are read from the tallies, too)
        _log.warning("outbox: the figures were not summed up (%s)", describe(error))
    runtime.folds_after = -inf if is_full else runtime.clock() + fold.EVERY
