"""A result must reach the table: writing goes on through an outage of the database."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace

import pymysql
import pytest
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from outbox.worker.process import retry_writes, shutdown
from outbox.worker.process.retry_writes import FIRST_WAIT, GRACE, LONGEST_WAIT, until_written


class Time:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    faked = SimpleNamespace(monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(retry_writes, "time", faked)
    return time


def away(kind: type[OperationalError | InterfaceError] = OperationalError) -> Exception:
    return kind("UPDATE outbox_email", {"address": "jo@x.example"}, OSError("jo@x.example"))


def failing(times: int, error: Callable[[], Exception] = away) -> Callable[[], str]:
    left = [times]

    def write() -> str:
        if left[0]:
            left[0] -= 1
            raise error()
        return "written"

    return write


def test_a_write_that_succeeds_waits_for_nothing(time: Time) -> None:
    assert until_written(failing(0)) == "written"
    assert time.waits == []


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_an_outage_is_outlasted(kind: type[OperationalError | InterfaceError], time: Time) -> None:
    assert until_written(failing(1000, lambda: away(kind))) == "written"
    assert len(time.waits) == 1000


def test_the_waits_double_up_to_the_longest(time: Time) -> None:
    until_written(failing(8))
    assert time.waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert (time.waits[0], time.waits[-1]) == (FIRST_WAIT, LONGEST_WAIT)


def test_a_worker_that_stops_tries_for_its_grace_and_no_longer(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "requested", lambda: True)
    with pytest.raises(OperationalError):
        until_written(failing(10**6))
    assert GRACE < time.now - 1000.0 <= GRACE + LONGEST_WAIT


def test_the_grace_begins_when_the_stop_is_seen(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "requested", lambda: time.now > 1100)
    with pytest.raises(OperationalError):
        until_written(failing(10**6))
    assert 1100 + GRACE < time.now <= 1100 + GRACE + 2 * LONGEST_WAIT


def test_a_database_that_comes_back_within_the_grace_gets_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutdown, "requested", lambda: True)
    assert until_written(failing(3)) == "written"


def test_an_exhausted_pool_is_outlasted(time: Time) -> None:
    assert until_written(failing(3, lambda: PoolTimeout("QueuePool limit reached"))) == "written"
    assert len(time.waits) == 3


def test_what_shall_be_done_meanwhile_is_done_before_each_wait(time: Time) -> None:
    moments: list[int] = []
    until_written(failing(3), meanwhile=lambda: moments.append(len(time.waits)))
    assert moments == [0, 1, 2]


@pytest.mark.parametrize("kind", [DataError, IntegrityError])
def test_data_that_is_refused_is_an_error_at_once(
    kind: type[DataError | IntegrityError], time: Time
) -> None:
    with pytest.raises(kind):
        until_written(failing(10**6, lambda: kind("INSERT", {}, ValueError("NUL"))))
    assert time.waits == []


@pytest.mark.parametrize(
    ("code", "is_away"), [(2006, True), (2013, True), (1040, True), (1213, True), (4025, False)]
)
def test_of_pymysql_the_number_tells_an_outage_from_a_refusal(
    code: int, is_away: bool, time: Time
) -> None:
    # PyMySQL calls a violated constraint (4025) operational, as it calls a lost connection.
    original = pymysql.err.OperationalError(code, "")
    refused = failing(3, lambda: OperationalError("UPDATE", {}, original))
    if is_away:
        assert until_written(refused) == "written"
    else:
        with pytest.raises(OperationalError):
            until_written(refused)


def test_an_error_of_our_own_comes_out(time: Time) -> None:
    with pytest.raises(ZeroDivisionError):
        until_written(failing(1, ZeroDivisionError))
    assert time.waits == []


def test_the_log_tells_each_error_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    kinds = (OperationalError, InterfaceError)
    codes = iter([2006, 2013] * 60)  # two seconds lie between one and the next
    until_written(failing(120, lambda: kinds[0]("UPDATE", {}, pymysql.err.Error(next(codes)))))
    told = [record.getMessage() for record in caplog.records]
    assert [sum(f"Error {code}" in line for line in told) for code in (2006, 2013)] == [4, 4]
    assert len(told) == 8


def test_the_log_names_the_error_and_no_address(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "outbox"):
        until_written(failing(1))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "OSError" in caplog.text
    assert "jo@x.example" not in caplog.text
    assert "UPDATE" not in caplog.text
