"""Tells of tasks of another outbox: two that share one broker database take each other's tasks.

Nothing is lost by it: the emails of a batch that the wrong worker got wait for their lease. A task
without an origin may be of an older version, of beat or of a web process, and is never suspected.
"""

from __future__ import annotations

import logging

from .process.runtime import Runtime

_log = logging.getLogger("outbox")

EVERY = 60.0
"""The least seconds between two warnings of one process."""

_FOREIGN = (
    "outbox: a task came of another outbox, or of a time before a restore: give each outbox a"
    " broker database, a virtual host or a global_keyprefix of its own, or emails wait for a lease"
)


def tell_if_foreign(runtime: Runtime, origin: object) -> None:
    """Log a warning if the task's `origin` is known and is another outbox than this one."""
    own = runtime.instance.id
    if origin and own and origin != own and runtime.seldom.is_due("tell of a foreign task", EVERY):
        _log.warning(_FOREIGN)
