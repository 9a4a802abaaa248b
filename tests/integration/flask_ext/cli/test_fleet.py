"""`check` and `health` tell of queues that nobody listens to."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from celery import Celery
from flask import Flask

from outbox import Outbox, Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.flask_ext.management.checks.fleet import fleet_findings
from outbox.worker.beat_mark import note_beat
from outbox.worker.broker.queues import LOW_QUEUE, QUEUES, SWEEP_QUEUE
from outbox.worker.fleet import inquiry
from outbox.worker.fleet.inquiry import OURS
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.celery_process import CeleryProcess
from tests.support.shop.fleet import celery, row, written
from tests.support.shop.listener import BROKER, STRANGER
from tests.support.shop.shell import Run, parsed, runner
from tests.support.shop.shop import Shop, Shops, entry
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.each_broker, pytest.mark.one_database("mariadb")]

SENDS = "outbox.urgent, outbox.normal, outbox.bulk"


@pytest.fixture
def run(shop: Shop) -> Run:
    """Runs `flask outbox` with these words."""
    return runner(shop)


def listening(
    broker: Broker, *queues: str, pool: str = "solo", option: str = "-c24", **more: str
) -> CeleryProcess:
    """Return a worker of 24 tasks that listens to these queues; `more` is its environment."""
    options = ("-P", pool, option, "-Q", ",".join(queues))
    environment = {BROKER: broker.url} | more
    warm = STRANGER not in more  # a warm one has imported our tasks
    return CeleryProcess(
        "tests.support.shop.listener", "worker", *options, environment=environment, warm=warm
    )


def levels(app: Celery) -> list[str]:
    return [one.level for one in fleet_findings(app)]


def errors(app: Celery) -> list[str]:
    return [one.text for one in fleet_findings(app) if one.level == "error"]


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_check_names_the_queues_that_are_forgotten_and_the_remedy(shop: Shop, run: Run) -> None:
    shop.app.extensions["celery"] = celery(task_queues=None)
    output = run("check", code=1).output
    assert f"task_queues has no {SWEEP_QUEUE}, {SENDS}, {LOW_QUEUE}" in output
    assert "set task_queues = outbox.celery_config.QUEUES" in output
    shop.app.extensions["celery"] = celery(task_queues=[q for q in QUEUES if q.name != LOW_QUEUE])
    assert f"warn   task_queues has no {LOW_QUEUE}" in run("check", code=1).output
    shop.app.extensions["celery"] = celery()
    assert "task_queues" not in run("check", code=1).output


@pytest.mark.databases("sqlite")
def test_a_database_that_does_not_answer_is_told_of(tmp_path: Path) -> None:
    app = Flask("shop")
    engine = sa.create_engine(f"sqlite:///{tmp_path}/missing/shop.db")
    Outbox().init_app(app, metadata=sa.MetaData(), engine=engine)
    for command in ("check", "health"):
        found = app.test_cli_runner().invoke(args=["outbox", command])
        assert found.exit_code == 1
        told = f"the database sqlite:///{tmp_path}/missing/shop.db cannot be opened"
        assert f"{told} (OperationalError SQLITE_CANTOPEN): mend the path" in found.output
    engine.dispose()


@pytest.mark.long
def test_the_running_workers_tell_which_queue_nobody_listens_to(broker: Broker) -> None:
    app = celery(broker.url)
    assert levels(app) == ["warn"], "no worker"
    with listening(broker, SWEEP_QUEUE, LOW_QUEUE):
        [told] = wait_until(lambda: errors(app), 60, "the worker to answer in time")
        assert told.startswith(f"of the workers that run, none listens to {SENDS}: the module ")
        assert "that their `celery -A` names must create the Flask app; restart the " in told
        assert "start a worker with -Q outbox.urgent,outbox.normal,outbox.bulk" in told
    app.close()


@pytest.mark.long
def test_workers_that_are_told_their_queues_need_no_task_queues(redis: RedisServer) -> None:
    app = celery(redis.url, task_queues=None)
    with listening(redis, *OURS):
        wait_until(lambda: levels(app) == ["ok"], 60, lambda: f"all is well: {levels(app)}")
    app.close()


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_the_running_workers_tell_what_their_command_lines_said(
    shops: Shops, redis: RedisServer
) -> None:
    shop = shops.open_on(sa.create_engine(shops.url, poolclass=sa.QueuePool))  # it keeps 5 open
    app = celery(redis.url, worker_disable_prefetch=False)

    def told() -> str:
        found = fleet_findings(app, shop.runtime)
        return " / ".join(one.text for one in found if "@" in one.text)

    assert "worker_disable_prefetch is off" in fleet_findings(app, shop.runtime)[-1].text
    with listening(redis, *OURS, pool="threads"):
        text = wait_until(told, 60, "the worker to answer in time")
        assert "pool keeps 5 connections open, and a worker runs 24 tasks" in text
        assert "takes 96 tasks at once and runs 24: others wait behind" in text
        assert "does not know our tasks" not in text
    with listening(redis, SWEEP_QUEUE, **{STRANGER: "yes"}):
        text = wait_until(told, 60, "the worker to answer in time")
        assert "does not know our tasks, so it loses them: the module that its -A names" in text
    app.close()


@pytest.mark.long
@pytest.mark.databases("sqlite")
@pytest.mark.brokers("rabbitmq")
def test_a_worker_on_rabbitmq_fetches_ahead_whatever_it_was_told(
    shop: Shop, broker: Broker
) -> None:
    """Celery lets `--disable-prefetch` hold for Redis alone."""
    app = celery(broker.url)

    def told() -> str:
        return " / ".join(one.text for one in fleet_findings(app, shop.runtime))

    with listening(broker, *OURS, pool="threads", option="--disable-prefetch"):
        wanted = "others wait behind a busy task; start it with --prefetch-multiplier 1"
        wait_until(lambda: wanted in told(), 60, lambda: f"the worker to be found: {told()}")
    app.close()


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_a_strict_check_passes_only_without_a_warning(shops: Shops, redis: RedisServer) -> None:
    sender = {"MAIL_DEFAULT_SENDER": "shop@shop.example"}
    shop = shops.open(MAIL_SERVER="mx.example", MAIL_USE_TLS=True, **sender)
    app = shop.app.extensions["celery"] = celery(
        redis.url,
        worker_disable_prefetch=True,
        beat_scheduler="outbox.celery_config:SteadyScheduler",
    )
    strict = ["outbox", "check", "--strict"]

    def checked() -> int:
        for name in inquiry.workers(app):  # this worker has no Flask app to write its row by
            written(shop, row(name))
        return shop.app.test_cli_runner().invoke(args=strict).exit_code

    with listening(redis, *OURS, option="--disable-prefetch"):
        wait_until(lambda: levels(app) == ["ok"], 60, "the worker to answer in time")
        output = runner(shop)("check").output
        assert "warn   no task of beat was ever seen" in output
        assert "listens to our queues, and does not stand in the table of the workers" in output
        assert checked() == 1
        note_beat(shop.runtime)
        wait_until(lambda: checked() == 0, 60, lambda: runner(shop)("check").output)
    app.close()


def test_health_sees_what_is_claimed_and_taken_by_nobody(shop: Shop, run: Run) -> None:
    shop.enqueue()
    shop.claim()
    figures = parsed(run("health", "--json"))
    assert (figures["healthy"], figures["oldest_due_seconds"]) == (True, 0.0)
    shop.later(301)
    output = run("health", code=1).output
    assert "an email stands claimed and has waited 30" in output
    figures = parsed(run("health", "--json", code=1))
    assert (figures["healthy"], figures["oldest_due_seconds"]) == (False, 0.0)
    assert figures["oldest_claimed_seconds"] > 300
    run("health", "--max-age", 1000)


def test_health_sees_a_fleet_that_lets_each_claim_run_out(shop: Shop, run: Run) -> None:
    """Each claim is new, but what is in it has waited since it was written."""
    shop.enqueue()
    for _ in range(5):
        shop.claim()
        shop.rescue()
    shop.claim()
    assert parsed(run("health", "--json", code=1))["oldest_claimed_seconds"] > 300


def test_an_email_that_was_tried_before_has_waited_since_its_claim(shop: Shop, run: Run) -> None:
    email = shop.enqueue()
    made = shop.sending(email.id)
    put_off = Outcome(
        status=Status.PENDING, reply=Reply(code=451, text="later"), attempts_added=1, delay=600.0
    )
    shop.record(made.token, [entry(email.id, put_off, Verdict.RETRY, phase=Phase.RCPT)])
    shop.later(1000)
    shop.claim()
    assert run("health").exit_code == 0
    shop.later(400)
    run("health", code=1)


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_a_late_health_names_the_queue_that_nobody_listens_to(
    shop: Shop, run: Run, redis: RedisServer
) -> None:
    app = shop.app.extensions["celery"] = celery(redis.url)
    shop.enqueue()
    shop.later(301)

    def told() -> list[str]:
        problems: list[str] = parsed(run("health", "--json", code=1))["problems"]
        return problems if "none listens" in " ".join(problems) else []

    with listening(redis, SWEEP_QUEUE):
        late, deaf, beatless = wait_until(told, 60, "the worker to answer in time")
        wait_until(
            lambda: f"none listens to {SENDS}" in run("health", code=1).output,
            60,
            "the worker to answer in time",
        )
    assert late == "1 email has been due or claimed for over 300 s"
    assert deaf.startswith("of the workers that run")
    assert beatless.startswith("no task of beat was ever seen")
    app.close()
