"""A server that takes few connections goes on over those, and is halted for nobody."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from outbox.domain.delivery.reach import CROWDED, WITNESS
from outbox.worker.batch.batch_end import BatchEnd, BatchReport
from outbox.worker.batch.send_batch import send_batch
from tests.integration.worker.servers.test_cut_off import wait
from tests.support.servers.smtp.dialogue import Dialogue, HangupError
from tests.support.servers.smtp.scripted import EXTENSIONS, PATIENCE, ScriptedServer, expect
from tests.support.shop.shop import Shops
from tests.support.shop.steps.motion import Motion, halted, server, standing, write
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_database("postgresql")

TASKS = 4
SENT, UNTOUCHED = ("sent", 1, 0, 0), ("pending", 0, 0, 0)


class FewConnections(ScriptedServer):
    """A server that greets the connections above `most` with 421, as Exim and Postfix do."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.otherwise = (self.greet, expect("EHLO", EXTENSIONS), self.serve)
        self.most = most
        self.refused = 0
        self.served = 0  # connections that are open and were greeted well
        self.held = 0  # emails that wait for `go_on`
        self.go_on = threading.Event()
        self.go_on.set()
        self._lock = threading.Lock()

    def greet(self, dialogue: Dialogue) -> None:
        with self._lock:
            is_over = self.served >= self.most
            self.refused += is_over
            self.served += not is_over
        if is_over:
            dialogue.say("421 Too many connections")
            raise HangupError
        dialogue.say("220 few.example ESMTP")

    def serve(self, dialogue: Dialogue) -> None:
        try:
            while (verb := dialogue.line()[:4].upper()) != "QUIT":
                if verb == "DATA":
                    dialogue.say("354 go on")
                    dialogue.content()
                    with self._lock:
                        self.held += 1
                    assert self.go_on.wait(PATIENCE)
                dialogue.say("250 2.0.0 fine")
            dialogue.say("221 bye")
        finally:
            with self._lock:
                self.served -= 1


def begun(few: FewConnections, shops: Shops, **options: object) -> Motion:
    """Return the workers of a shop that has just sent an email, and keeps that connection."""
    entry = server("mx", few.port, **options)
    shop = shops.open(OUTBOX_SERVERS=[entry], OUTBOX_SLOTS=TASKS, OUTBOX_BATCH=5, OUTBOX_WINDOW=5)
    motion = Motion(shop=shop)
    write(shop, 1)
    motion.beat()
    return motion


def at_once(pool: ThreadPoolExecutor, motion: Motion) -> list[Future[BatchReport]]:
    """Run each batch that was handed out in a thread of its own."""
    claims = [motion.waiting.popleft() for _ in range(len(motion.waiting))]
    return [pool.submit(send_batch, motion.shop.runtime, made.token) for made in claims]


@pytest.mark.long
def test_a_connection_that_is_refused_beside_others_halts_nobody(
    shops: Shops, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "outbox")
    with FewConnections(2) as few, ThreadPoolExecutor(TASKS) as pool:
        motion = begun(few, shops)
        shop = motion.shop
        few.go_on.clear()
        try:
            write(shop, 20)
            assert len(motion.sweep()) == TASKS
            tasks = at_once(pool, motion)
            wait_until(lambda: few.held == 3, PATIENCE, "two emails under way")
            wait_until(lambda: sum(task.done() for task in tasks) == 2, PATIENCE, "two refused")
            assert halted(shop) == set()
            assert motion.sweep() == [], "no batch is claimed that would be refused"
            refused = few.refused
            assert refused in (1, 2)
        finally:
            few.go_on.set()
        reports = [task.result(PATIENCE) for task in tasks]
        ends = sorted((report.end, report.is_worth_a_sweep) for report in reports)
        assert ends == [(BatchEnd.DONE, True)] * 2 + [(BatchEnd.NO_SERVER, False)] * 2
        assert standing(shop) == {SENT: 11, UNTOUCHED: 10}

        assert len(motion.sweep()) == 2, "both connections go on"
        assert {task.result(PATIENCE).end for task in at_once(pool, motion)} == {BatchEnd.DONE}
        assert standing(shop) == {SENT: 21}
        assert (few.refused, halted(shop)) == (refused, set())
    [line] = [record.getMessage() for record in caplog.records]
    assert "server mx refused a further connection (greeting 421)" in line
    assert 'set its "connections"' in line


@pytest.mark.long
def test_after_a_while_a_further_connection_is_tried(shops: Shops) -> None:
    with FewConnections(1) as few, ThreadPoolExecutor(TASKS) as pool:
        motion = begun(few, shops)
        motion.shop.runtime.reach.crowd("mx")
        write(motion.shop, 10)
        assert len(motion.sweep()) == 1
        motion.beat()
        wait(motion, CROWDED)
        write(motion.shop, 10)
        assert len(motion.sweep()) == 2
        few.most = 2
        few.go_on.clear()
        tasks = at_once(pool, motion)
        wait_until(lambda: few.held == 13, PATIENCE, "two emails under way")
        few.go_on.set()
        assert {task.result(PATIENCE).end for task in tasks} == {BatchEnd.DONE}
        assert (few.refused, halted(motion.shop)) == (0, set())


def test_the_open_session_is_used_before_a_connection_that_was_refused(shops: Shops) -> None:
    with FewConnections(1) as few:
        motion = begun(few, shops)
        connections = motion.shop.runtime.connections
        [mx] = motion.shop.runtime.servers
        with ExitStack() as last, ExitStack() as first:
            used = first.enter_context(connections.lend(mx))
            refused = last.enter_context(connections.lend(mx))
            assert refused.connect() is not None
            assert (used.has_session, refused.has_session) == (True, False)
        motion.shop.runtime.reach.crowd("mx")
        write(motion.shop, 10)
        motion.beat()
        assert standing(motion.shop) == {SENT: 11}
        assert (few.refused, halted(motion.shop)) == (1, set())


def test_a_child_counts_no_batch_of_its_parent(shops: Shops) -> None:
    with FewConnections(1) as few:
        motion = begun(few, shops)
        runtime = motion.shop.runtime
        [mx] = runtime.servers
        runtime.reach.crowd("mx")
        with runtime.connections.lend(mx):
            assert runtime.connections.spare("mx") == 0
            runtime.connections.renew_lock()
            assert runtime.connections.spare("mx") == 1


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"connections": 4}])
def test_a_server_that_lately_took_no_email_is_halted(
    shops: Shops, options: dict[str, int]
) -> None:
    """It may be overloaded. One with a cap says that the cap is too high."""
    with FewConnections(1) as few, ThreadPoolExecutor(TASKS) as pool:
        motion = begun(few, shops, **options)
        if not options:
            wait(motion, WITNESS + 1)
        few.go_on.clear()
        try:
            write(motion.shop, 10)
            assert len(motion.sweep()) == 2
            tasks = at_once(pool, motion)
            wait_until(lambda: any(task.done() for task in tasks), PATIENCE, "one is refused")
            assert halted(motion.shop) == {"mx"}
        finally:
            few.go_on.set()
        assert BatchEnd.NO_SERVER in {task.result(PATIENCE).end for task in tasks}
