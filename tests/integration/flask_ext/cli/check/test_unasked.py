"""`check` where the broker cannot be asked who listens to it."""

from __future__ import annotations

import threading

import pytest

from outbox.flask_ext.management.checks import fleet as check_fleet
from outbox.flask_ext.management.checks.fleet import fleet_findings
from outbox.worker.fleet import inquiry
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.brokers.redis import RedisServer
from tests.support.shop.fleet import celery, row, written
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop
from tests.support.system.system import DEADLINE
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.each_broker, pytest.mark.one_database("mariadb")]


@pytest.mark.long
@pytest.mark.parametrize("silent", [True, False])
def test_a_broker_that_cannot_be_asked_holds_up_nobody(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    monkeypatch.setattr(inquiry, "PATIENCE", 1.0)
    app = celery(redis.url)
    if silent:
        redis.freeze()
    else:
        redis.stop()
    [told] = fleet_findings(app)
    assert told.level == "error"
    assert told.text.startswith(f"the broker {redis.url} ")
    assert told.text.endswith(
        "start it, or mend broker_url; until then emails wait, and none is lost"
    )
    # The thread that asks is left behind and imports modules: the next test may fail at its start.
    redis.thaw()
    wait_until(lambda: not is_asking(), DEADLINE, "the thread that asks to end")


def is_asking() -> bool:
    return any(thread.name == "outbox-fleet" for thread in threading.enumerate())


@pytest.mark.long
@pytest.mark.databases("sqlite")
@pytest.mark.brokers("redis")
def test_workers_that_answer_to_nobody_are_judged_by_their_table_alone(
    shop: Shop, redis: RedisServer
) -> None:
    app, check = celery(redis.url, worker_enable_remote_control=False), runner(shop)
    shop.app.extensions["celery"] = app
    unasked = "worker_enable_remote_control is off, so no worker was asked"
    assert f"warn   {unasked}, and none that lives stands in their table" in check("check").output
    [told] = fleet_findings(app)
    assert told.level == "ok", "health, which has judged the table by then"
    written(shop, row())
    assert f"ok     {unasked}: 1 living worker stands in their table" in check("check").output
    redis.stop()
    assert "cannot be reached" in check("check", code=1).output
    app.close()


@pytest.mark.databases("sqlite")
@pytest.mark.brokers("redis")
@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("redis://:hunter2@127.0.0.1:1/0", "redis://:**@127.0.0.1:1/0"),
        ("redis://127.0.0.1:1/0", "redis://127.0.0.1:1/0"),
        ("amqp://jo:hunter2@127.0.0.1:1//", "amqp://jo:**@127.0.0.1:1//"),
        ("redis+socket://:hunter2@/nowhere.sock", "redis+socket://:**@/nowhere.sock"),
        ("rediss://:hun#ter2@127.0.0.1:1/0", "of broker_url"),
    ],
)
def test_check_fails_on_a_broker_that_is_away_and_keeps_its_password(
    shop: Shop, url: str, named: str
) -> None:
    shop.app.extensions["celery"] = celery(url)
    output = runner(shop)("check", code=1).output
    assert f"error  the broker {named} cannot be reached (" in output
    assert "ter2" not in output


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("scheme", ["reddis", "http"])
def test_check_names_a_scheme_that_no_broker_has(shop: Shop, scheme: str) -> None:
    shop.app.extensions["celery"] = celery(f"{scheme}://:hunter2@127.0.0.1:1/0")
    output = runner(shop)("check", code=1).output
    assert f"cannot be reached (Celery knows no broker with the scheme {scheme}://)" in output
    assert "KeyError" not in output
    assert "hunter2" not in output


def test_a_broker_that_is_reached_and_refuses_the_question_is_a_warning(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Redis does whose ACL allows no PUBLISH."""

    def refused(_: object) -> dict[str, list[str]]:
        raise PermissionError

    monkeypatch.setattr(check_fleet, "workers", lambda app: inquiry.ask(app, refused))
    app = celery(redis.url)
    [told] = fleet_findings(app)
    assert told.level == "warn"
    assert told.text == f"workers: the broker {redis.url} cannot be asked (PermissionError)"
    app.close()


@pytest.mark.brokers("redis")
def test_a_process_that_can_start_no_thread_cannot_ask_and_says_so(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)  # a double: no limit holds for root
    [told] = fleet_findings(celery(broker.url))
    assert told.level == "warn"
    assert told.text.endswith("cannot be asked (this process can start no thread)")


@pytest.mark.databases("sqlite")
def test_without_workers_no_broker_is_missed(shop: Shop) -> None:
    shop.app.extensions["celery"] = celery(task_always_eager=True)
    assert "the broker" not in runner(shop)("check").output
