"""A batch that ends by an error which no email has caused gives back what waits, uncharged."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from sqlalchemy.exc import OperationalError

from outbox.store.transitions import window
from outbox.worker.batch import batch_results, cleanup, send_batch, sending
from outbox.worker.batch.watch.server_watch import Watch
from outbox.worker.process import retry_writes, unrecorded
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.stateful import StatefulServer
from tests.support.shop.shop import Shop, Shops, addresses
from tests.support.shop.steps.raising import raise_when
from tests.support.waiting import wait_until

pytestmark = pytest.mark.each_database

EMAILS = 6
PATIENCE = 15.0
ENDS_THE_TASK = SystemExit, SoftTimeLimitExceeded


def batch_of(shops: Shops, port: int) -> Shop:
    shop = shops.open(MAIL_PORT=port, OUTBOX_WINDOW=2)
    for address in addresses(EMAILS):
        shop.enqueue(address)
    return shop


def run(shop: Shop, error: type[BaseException]) -> None:
    (made,) = shop.claim()
    with pytest.raises(error):
        send_batch.send_batch(shop.runtime, made.token)


def is_given_back(shop: Shop, sent: int) -> bool:
    """Whether so many emails are sent, and the others are pending, uncharged and without doubt."""
    assert shop.statuses() == ["sent"] * sent + ["pending"] * (EMAILS - sent)
    ends = {(row.crashes, row.unknown_count) for row in shop.rows(shop.tables.email)}
    return ends == {(0, 0)} and shop.rows(shop.tables.lease) == []


def failing(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, times: float = 2
) -> Callable[[], None]:
    """Have the database fail at this write, so many times; return a function that begins it.

    This is a double: no database fails just there.
    """
    write, left = getattr(module, name), [0.0]

    def fail_or_write(*given: Any, **named: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise OperationalError("UPDATE", {}, OSError("gone"))
        return write(*given, **named)

    def begin() -> None:
        left[0] = times

    monkeypatch.setattr(module, name, fail_or_write)
    return begin


class Away:
    """The database is away for some writes of the batch, and of its threads. A double, as above."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str, answers: bool = True) -> None:
        """It answers with an error, or not at all."""
        self._answers = answers
        self._has_begun, self._is_back = Event(), Event()
        self.asked = 0
        for name, module in itertools.product(names, (batch_results, cleanup, unrecorded)):
            if hasattr(module, name):
                write = partial(self._fail_or_write, getattr(window, name))
                monkeypatch.setattr(module, name, write)

    def begin(self) -> None:
        self._has_begun.set()

    @contextmanager
    def ends_at_last(self, work: Callable[[], object]) -> Iterator[Future[object]]:
        """Run the work in a thread. The database is back behind the block, and the work ends."""
        with ThreadPoolExecutor(1) as pool:
            try:
                yield (task := pool.submit(work))
            finally:
                self._is_back.set()
            task.result(PATIENCE)

    def _fail_or_write(self, write: Any, *given: Any, **named: Any) -> Any:
        if self._has_begun.is_set() and not self._is_back.is_set():
            self.asked += 1
            if self._answers:
                raise OperationalError("UPDATE", {}, OSError("gone"))
            assert self._is_back.wait(PATIENCE)
        return write(*given, **named)


def end_at(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], address: str, begin: Any
) -> None:
    """End the task when this recipient's email is to be sent; a fault begins just before."""

    def is_time(envelope: Any) -> bool:
        if address in envelope.recipients:
            begin()
        return address in envelope.recipients

    raise_when(monkeypatch, is_time, error)


@pytest.mark.matrix
@pytest.mark.parametrize("error", ENDS_THE_TASK)
@pytest.mark.parametrize("fault", [(cleanup, "abandon"), (batch_results, "advance")])
def test_the_rest_goes_back_though_the_database_fails_for_a_moment(
    shops: Shops,
    catcher: Catcher,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    fault: tuple[Any, str],
) -> None:
    shop = batch_of(shops, catcher.port)
    end_at(monkeypatch, error, addresses(EMAILS)[3], failing(monkeypatch, *fault))
    run(shop, error)
    assert is_given_back(shop, sent=3)
    assert len(catcher.emails) == 3


@pytest.mark.matrix
@pytest.mark.parametrize("error", ENDS_THE_TASK)
def test_a_process_that_is_ended_does_not_wait_for_a_database_that_is_away(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """A hard time limit, which kills the process, may come soon behind the soft one."""
    shop = batch_of(shops, catcher.port)
    shop.runtime.has_hard_limit = True
    monkeypatch.setattr(cleanup, "HASTE", 0.0)
    away = Away(monkeypatch, "abandon")
    end_at(monkeypatch, error, addresses(EMAILS)[3], away.begin)
    with away.ends_at_last(partial(run, shop, error)) as task:
        task.result(PATIENCE)
        left = ["sent"] * 3 + ["pending"] + ["claimed"] * 2
        wait_until(lambda: shop.statuses() == left, PATIENCE, "the results")
        wait_until(lambda: shop.runtime.unrecorded.count == 0, PATIENCE, "no result to be left")
        assert shop.runtime.unrecorded.is_away, "the process waits for it as long as for results"
    assert shop.runtime.unrecorded.wait(PATIENCE)
    assert is_given_back(shop, sent=3)


@pytest.mark.matrix
@pytest.mark.parametrize("error", ENDS_THE_TASK)
def test_a_result_that_a_task_cannot_record_in_its_time_is_left_to_a_thread(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Likewise."""
    shop = batch_of(shops, catcher.port)
    shop.runtime.has_hard_limit = True
    monkeypatch.setattr(cleanup, "HASTE", 0.0)
    away = Away(monkeypatch, "advance", "record_last")
    end_at(monkeypatch, error, addresses(EMAILS)[3], away.begin)
    with away.ends_at_last(partial(run, shop, error)) as task:
        task.result(PATIENCE)
        assert shop.statuses()[2] == "sending"
    assert shop.runtime.unrecorded.wait(PATIENCE)
    assert is_given_back(shop, sent=3)


@pytest.mark.matrix
@pytest.mark.parametrize("error", ENDS_THE_TASK)
def test_a_task_that_is_to_end_soon_waits_for_no_database_that_gives_no_answer(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """As where its host is gone: no error ends a statement."""
    shop = batch_of(shops, catcher.port)
    shop.runtime.has_hard_limit = True
    monkeypatch.setattr(cleanup, "HASTE", 0.0)
    away = Away(monkeypatch, "advance", "record_last", "abandon", answers=False)
    end_at(monkeypatch, error, addresses(EMAILS)[3], away.begin)
    with away.ends_at_last(partial(run, shop, error)) as task:
        task.result(PATIENCE)
        assert shop.statuses()[2] == "sending"
    assert shop.runtime.unrecorded.wait(PATIENCE)
    assert is_given_back(shop, sent=3)


def test_a_time_limit_within_the_clean_up_behind_another_error_ends_the_task(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Celery raises it once, and then the hard one kills the process with what it knows."""
    shop = batch_of(shops, catcher.port)
    shop.runtime.has_hard_limit = True
    monkeypatch.setattr(cleanup, "HASTE", 0.0)
    away = Away(monkeypatch, "advance", "record_last", "abandon")
    end_at(monkeypatch, RuntimeError, addresses(EMAILS)[3], away.begin)
    limits = [SoftTimeLimitExceeded]

    def sleep(seconds: float) -> None:
        if limits:  # the task is the first to wait
            raise limits.pop()
        time.sleep(seconds)

    clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr(retry_writes, "time", clock)
    with away.ends_at_last(partial(run, shop, RuntimeError)) as task:
        task.result(PATIENCE)
        assert shop.statuses()[2] == "sending"
    assert shop.runtime.unrecorded.wait(PATIENCE)
    assert shop.statuses() == ["sent"] * 3 + ["pending"] * 3
    assert shop.rows(shop.tables.lease) == []


@pytest.mark.matrix
@pytest.mark.parametrize("writes", [("advance", "record_last", "abandon"), ("abandon",)])
def test_a_task_without_a_hard_limit_waits_for_its_database_behind_its_soft_one(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch, writes: tuple[str, ...]
) -> None:
    """Nobody kills its process, which may end behind this task."""
    shop = batch_of(shops, catcher.port)
    monkeypatch.setattr(cleanup, "HASTE", 0.0)
    away = Away(monkeypatch, *writes)
    end_at(monkeypatch, SoftTimeLimitExceeded, addresses(EMAILS)[3], away.begin)
    with away.ends_at_last(partial(run, shop, SoftTimeLimitExceeded)) as task:
        wait_until(lambda: away.asked > 2, PATIENCE, "the database to be asked again")
        assert not task.done()
    assert is_given_back(shop, sent=3)


@pytest.mark.matrix
@pytest.mark.parametrize("step", [(send_batch, "return_relaned"), (sending, "finish")])
@pytest.mark.parametrize("error", ENDS_THE_TASK)
def test_the_rest_goes_back_before_the_first_window_and_after_the_last(
    shops: Shops, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], step: tuple[Any, str]
) -> None:
    def raise_(*_: object, **__: object) -> None:
        raise error

    with StatefulServer({"CONNECT": "421 4.3.2 later"}) as server:
        shop = batch_of(shops, server.port)
        monkeypatch.setattr(*step, raise_)
        run(shop, error)
    assert is_given_back(shop, sent=0)


def test_an_error_while_the_end_is_weighed_charges_nobody(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No email is under way any more."""

    def fail(_: Watch) -> None:
        raise RuntimeError

    with StatefulServer({"CONNECT": "421 4.3.2 later"}) as server:
        shop = batch_of(shops, server.port)
        monkeypatch.setattr(Watch, "settle", fail)
        run(shop, RuntimeError)
    assert is_given_back(shop, sent=0)
