"""Sums up what was counted of the attempts, after the work that emails wait for."""

from __future__ import annotations

import logging

from ..store.connection.error_codes import describe
from ..store.rollup import fold
from .process.runtime import Runtime

_log = logging.getLogger("outbox")

FOLD = "sum the tallies up"

IDLE_EVERY = 60.0
"""Seconds from one look for tallies to the next in a process that sends nothing: what the last
batches counted is left to it."""


def fold_tallies(runtime: Runtime, *, is_idle: bool = False) -> None:
    """Sum tallies up, unless this process looked for them within the last `fold.EVERY` seconds.

    One that `is_idle`, and has counted nothing since, waits for `IDLE_EVERY` seconds. An error
    keeps no email back: it is logged, and the tallies wait for the next time.
    """
    if not runtime.seldom.is_due(FOLD, IDLE_EVERY if is_idle else fold.EVERY):
        return
    is_full = False
    try:
        is_full = fold.fold(runtime.database)
    except Exception as error:  # noqa: BLE001  (figures are read from the tallies, too)
        _log.warning("outbox: the figures were not summed up (%s)", describe(error))
    if is_full:
        runtime.seldom.forget(FOLD)  # more is left
    else:
        runtime.seldom.note(FOLD)  # a slow one is not repeated at once
