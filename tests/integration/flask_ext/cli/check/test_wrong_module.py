"""A worker whose `-A` names a module that makes no Flask app: it says so, and so does `check`."""

from __future__ import annotations

import pytest
from celery import Celery

from outbox.flask_ext.management.checks.fleet import fleet_findings
from outbox.worker.beat_mark import note_task
from outbox.worker.fleet.inquiry import OURS
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.celery_process import CeleryProcess
from tests.support.shop.fleet import celery
from tests.support.shop.listener import ALONE, BROKER, STRANGER
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.each_broker, pytest.mark.one_database("sqlite"), pytest.mark.long]

MODULE = "the module that `celery -A` names must create the Flask app"


def worker(broker: Broker, *options: str, **more: str) -> CeleryProcess:
    environment = {BROKER: broker.url} | more
    return CeleryProcess(
        "tests.support.shop.listener", "worker", "-Psolo", *options, environment=environment
    )


def about_workers(shop: Shop, app: Celery) -> dict[str, tuple[str, str]]:
    """Return level and text of what `check` says of the workers, by code; wait for an answer."""
    shop.app.extensions["celery"] = app
    wait_until(lambda: fleet_findings(app)[0].code != "no-worker", 60, "the worker to answer")
    found = parsed(shop.app.test_cli_runner().invoke(args=["outbox", "check", "--json"]))
    return {one["code"]: (one["level"], one["text"]) for one in found}


def test_check_fails_and_names_the_module(shop: Shop, broker: Broker) -> None:
    app = celery(broker.url)
    with worker(broker, "-Q", ",".join(OURS), **{ALONE: "yes"}) as process:
        told = about_workers(shop, app)
        level, text = told["worker-without-flask-app"]
        assert level == "error"
        assert MODULE in text
        assert "worker-unlisted" not in told, "the cause is known: nothing is guessed"
        assert "worker-without-flask-app" in {one.code for one in fleet_findings(app)}
        assert process.printed().count(f"no Flask app with an outbox has this Celery app: {MODULE}")
        note_task(shop.runtime)  # each process of its pool has a Flask app of its own
        told = about_workers(shop, app)
        assert told["worker-unlisted"][0] == "warn"
        assert "worker-without-flask-app" not in told
    app.close()


def test_a_worker_that_listens_to_no_queue_of_ours_says_so_at_its_start(
    shop: Shop, broker: Broker
) -> None:
    """So do those of an app whose `celery -A` stays as it was before it had an outbox."""
    app = celery(broker.url)
    with worker(broker, **{ALONE: "yes"}) as process:
        [line] = [line for line in process.printed().splitlines() if MODULE in line]
        assert "this worker gets no task of the outbox" in line
        level, text = about_workers(shop, app)["queues-unheard"]
        assert level == "error"
        assert "the module that their `celery -A` names must create the Flask app; " in text
        assert runner(shop)("check", code=1)
    app.close()


@pytest.mark.parametrize("stranger", [False, True])
def test_a_worker_with_a_flask_app_or_without_the_outbox_says_nothing(
    broker: Broker, stranger: bool
) -> None:
    with worker(broker, **({STRANGER: "yes"} if stranger else {})) as process:
        assert "no Flask app" not in process.printed()
