"""Sums up what was counted of the attempts, after the work that emails wait for."""

from __future__ import annotations

import logging

from ..store.connection.error_codes import describe
from ..store.rollup import fold
from .process.runtime import Runtime

_log = logging.getLogger("outbox")


def fold_tallies(runtime: Runtime) -> None:
    """Sum tallies up, unless this process did so within the last `fold.EVERY` seconds.

    An error keeps no email back: it is logged, and the tallies wait for the next time.
    """
    if runtime.clock() < runtime.folds_after:
        return
    is_full = False
    try:
        is_full = fold.fold(runtime.database)
    except Exception as error:  # noqa: BLE001  (figures are read from the tallies, too)
        _log.warning("outbox: the figures were not summed up (%s)", describe(error))
    if not is_full:
        runtime.folds_after = runtime.clock() + fold.EVERY
