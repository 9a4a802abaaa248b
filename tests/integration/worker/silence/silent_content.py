"""A server that says nothing to contents beside one that is well, and an outbox with both."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from outbox import Priority
from outbox.domain.delivery.breaker_timing import BreakerState
from outbox.domain.delivery.transaction import Phase
from tests.integration.blame.server import ClassServer, Habit
from tests.integration.worker.silence.test_silent_server import DEADLINE, until
from tests.support.servers.smtp.dialogue import Dialogue, HangupError
from tests.support.servers.smtp.scripted import ScriptedServer
from tests.support.shop.shop import Shop, newsletter
from tests.support.shop.steps.motion import server
from tests.support.waiting import wait_until

LEASE = 1.0
"""Seconds: the least that is allowed, so that many beats pass while a reply is waited for."""


class SilentBehind(ClassServer):
    """Takes each content, and says `reply` to it only when it is `released`."""

    def __init__(self, reply: str = "250 2.0.0 queued") -> None:
        super().__init__(Habit(phase=Phase.DOT, answer=self._wait))
        self.reply = reply
        self.released = threading.Event()
        self.contents = 0

    def _wait(self, dialogue: Dialogue) -> None:
        self.contents += 1
        while not (self.released.wait(0.02) or dialogue.stopped.is_set()):
            pass
        if self.reply == "close" or dialogue.stopped.is_set():
            raise HangupError
        if self.reply.startswith("250"):
            self.copies["taken"] += 1
        dialogue.say(self.reply)


@contextmanager
def silence(reply: str = "250 2.0.0 queued") -> Iterator[SilentBehind]:
    with SilentBehind(reply) as one:
        try:
            yield one
        finally:
            one.released.set()


def two_routes(silent: ScriptedServer, well: ClassServer, **more: Any) -> dict[str, Any]:
    """Return the settings of an outbox whose "bad" emails go over the silent server alone."""
    return {
        "OUTBOX_SERVERS": [server("silent", silent.port, **more), server("well", well.port)],
        "OUTBOX_ROUTES": [
            {"name": "bad", "tag": "bad", "servers": ["silent"]},
            {"name": "rest", "servers": ["well"]},
        ],
        "OUTBOX_LEASE": LEASE,
    }


def write(shop: Shop, tag: str, count: int) -> None:
    with shop.session() as session:
        to = [f"r{number}@{tag}.example" for number in range(count)]
        normal = Priority.NORMAL
        shop.outbox.enqueue_many(newsletter(), to, session=session, tag=tag, priority=normal)
        session.commit()


def have_the_process_go_on(shop: Shop, silent: SilentBehind) -> None:
    """Wait until a content gets no reply, and until the process has sent others all the same."""
    wait_until(lambda: silent.contents, DEADLINE, "the content to be there")
    write(shop, "good", 5)
    until(shop, "good", {"sent": 5})


def is_halted(shop: Shop) -> bool:
    breaker = shop.tables.breaker.c
    found = (breaker.server == "silent") & (breaker.state == BreakerState.OPEN)
    return bool(shop.rows(shop.tables.breaker, found))


def awaited() -> int:
    """Count the batches of this process that have ended, but for a late reply."""
    return sum(
        thread.name == "outbox-late-reply" and thread.is_alive() for thread in threading.enumerate()
    )
