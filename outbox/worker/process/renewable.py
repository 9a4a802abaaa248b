"""Starts the renewal of leases before a batch's lease is started.

A lease that has started, and is not renewed, charges its emails a lost worker. A process whose host
has used up its limit of processes can start no thread, and so renews nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ..leases.heartbeats import Heartbeats
from . import shutdown
from .retry_writes import FIRST_WAIT

_log = logging.getLogger("outbox")

PATIENCE = 5.0
"""Seconds for which a process tries to start the thread. A process that failed at once would take
the next batch at once, and so nearly all of them, while others could send them."""


@contextmanager
def renewable(heartbeats: Heartbeats) -> Iterator[bool]:
    """Have leases renewed during the block; yield False if this process can start no thread."""
    with ExitStack() as block:
        yield _is_begun(heartbeats, block)


def _is_begun(heartbeats: Heartbeats, block: ExitStack) -> bool:
    wait, waited = FIRST_WAIT, 0.0
    while True:
        try:
            block.enter_context(heartbeats.running())
        except RuntimeError:
            if waited >= PATIENCE or shutdown.requested():
                _log.warning("outbox: a batch goes back: no thread can be started for its lease")
                return False
            time.sleep(wait)
            waited, wait = waited + wait, 2 * wait
        else:
            return True
