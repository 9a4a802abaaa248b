"""The page `/metrics`: who may read it, and that it is what Prometheus reads."""

from __future__ import annotations

import math
import subprocess
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_wtf import CSRFProtect
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.orm import scoped_session, sessionmaker
from werkzeug.exceptions import HTTPException

from outbox import ConfigurationError, Outbox
from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.figures.histogram import BOUNDS, bin_of
from outbox.metrics import Metrics, OutboxCollector, bearer
from outbox.store.control import circuit_breaker
from tests.integration.metrics.promtool import promtool
from tests.integration.store.rollup.test_fold import tallied
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, message

pytestmark = pytest.mark.one_database("sqlite")

TOKEN = "a-long.random~token_/+42=="


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the samples by their name and the values of their labels, in the labels' order."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def ask(app: Flask, **headers: str) -> Any:
    return app.test_client().get("/metrics", headers=headers)


def full(shops: Shops) -> Shop:
    """Open a shop of which each metric has something to tell."""
    shop = shops.open(MAIL_SERVER="mx", MAIL_PORT=25)
    shop.enqueue()
    tallied(shop, 3, server='a "b"\\c\nd', route="news", bin=bin_of(400_000))
    tallied(shop, 2, server="mx:25", verdict="fail", code=550, bin=-1)
    circuit_breaker.trip(shop.database, "mx:25", cause=Cause.SESSION, reason="no", alert=True)
    shop.outbox.pause("bulk")
    return shop


def test_nobody_reads_it_until_the_app_says_who(shops: Shops) -> None:
    app = shops.open().app
    Metrics(app)
    assert ask(app).status_code == 404


def test_a_token_opens_it_and_no_other(shops: Shops) -> None:
    app = shops.open(SECRET_KEY="k").app
    CSRFProtect(app)
    app.register_error_handler(HTTPException, lambda error: ("Our own page", error.code))
    Metrics(app, access=bearer(TOKEN))
    for wrong in ({}, {"Authorization": "Bearer no"}, {"Authorization": f"Basic {TOKEN}"}):
        refused = ask(app, **wrong)
        assert (refused.status_code, "outbox" in refused.text) == (401, False)
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    found = ask(app, Authorization=f"Bearer {TOKEN}")
    assert found.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert samples(found.text)["outbox_up", ()] == 1
    with pytest.raises(ConfigurationError, match="16 characters"):
        bearer("short")


@pytest.mark.parametrize(
    "token",
    ["a-long-random-token\n", "a long random token", "a-long=random-token", "ein-langes-Gehölz-42"],
)
def test_a_token_that_no_client_can_send_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="letters, digits") as refused:
        bearer(token)
    assert token not in str(refused.value)


def test_an_access_of_ones_own_must_say_true(shops: Shops) -> None:
    answer: Any = True

    async def access() -> Any:
        return answer

    app = shops.open().app
    Metrics(app, access=access)
    assert ask(app).status_code == 200
    for answer in (None, 1, "yes", False):  # noqa: B007  (the access reads it)
        assert ask(app).status_code == 404


def test_a_second_page_at_the_same_address_is_refused(shops: Shops) -> None:
    app = shops.open().app
    Metrics(app)
    with pytest.raises(ConfigurationError, match="has a page at /metrics already"):
        Metrics(app)
    Metrics(url="/elsewhere")
    wrong: Any = TOKEN
    with pytest.raises(ConfigurationError, match="access must be a function"):
        Metrics(app, access=wrong, url="/elsewhere")


def test_it_tells_all_metrics_and_strange_names_are_escaped(shops: Shops) -> None:
    found = samples(full(shops).outbox.metrics())
    assert found["outbox_attempts_total", ("normal", "news", 'a "b"\\c\nd', "sent")] == 3
    assert found["outbox_attempts_total", ("normal", "", "mx:25", "fail")] == 2
    assert found["outbox_emails", ("due",)] == 1
    assert found["outbox_server_halted", ("mx:25",)] == 1
    assert found["outbox_server_alert", ("mx:25",)] == 1
    assert found["outbox_paused", ("bulk",)] == 1
    assert found["outbox_workers", ("busy",)] == 0


def test_each_way_over_a_server_has_its_attempts_from_the_start(shops: Shops) -> None:
    """A monitor cannot tell how far a counter has risen that begins at 100."""
    shop = shops.open(
        OUTBOX_SERVERS=[{"name": name, "server": "mx"} for name in ("one", "two")],
        OUTBOX_ROUTES=[{"name": "news", "tag": "news*", "servers": ["two"]}],
    )
    text = shop.outbox.metrics()
    found = {labels for name, labels in samples(text) if name == "outbox_attempts_total"}
    assert found == {
        (priority, route, server, verdict)
        for server, route in (("one", ""), ("two", ""), ("two", "news"))
        for priority in ("urgent", "normal", "bulk")
        for verdict in ("sent", "retry", "fail", "unknown")
    }
    assert samples(text)["outbox_attempts_total", ("bulk", "news", "two", "fail")] == 0


def test_the_histogram_has_every_second_bound(shops: Shops) -> None:
    found = samples(full(shops).outbox.metrics())
    name = "outbox_time_to_accepted_seconds"
    bounds = [labels[0] for of, labels in found if of == f"{name}_bucket" and labels[1] == "bulk"]
    assert list(map(float, bounds)) == [*BOUNDS[1::2], math.inf]
    assert found[f"{name}_bucket", ("0.3", "normal")] == 0
    assert found[f"{name}_bucket", ("0.7", "normal")] == 3
    assert found[f"{name}_bucket", ("+Inf", "normal")] == 3
    assert found[f"{name}_count", ("normal",)] == 3


def test_prometheus_itself_finds_no_fault(shops: Shops) -> None:
    text = full(shops).outbox.metrics()
    done = subprocess.run(
        [promtool(), "check", "metrics"], input=text, text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_without_the_database_the_outbox_is_down_and_the_page_is_not(shops: Shops) -> None:
    shop = shops.open()
    away = sa.create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none")
    app = Flask("away")
    Outbox().init_app(app, metadata=sa.MetaData(), engine=away)
    Metrics(app, access=lambda: True)
    assert samples(ask(app).text) == {("outbox_up", ()): 0}
    shop.tables.email.metadata.drop_all(shop.engine)
    assert samples(shop.outbox.metrics()) == {("outbox_up", ()): 0}


def test_a_registry_with_an_apps_own_metrics_tells_the_same(shops: Shops) -> None:
    shop = full(shops)
    registry = CollectorRegistry()
    registry.register(OutboxCollector(shop.app))
    theirs, ours = samples(generate_latest(registry).decode()), samples(shop.outbox.metrics())
    changing = ("outbox_oldest_due_seconds", ("normal",))
    assert 0 < theirs.pop(changing) <= ours.pop(changing)
    assert theirs == {key: value for key, value in ours.items() if not key[0].endswith("_count")}


def test_an_apps_own_page_can_be_read_as_openmetrics(shops: Shops) -> None:
    """Its readers refuse the whole page for a histogram that has a count and no sum."""
    registry = CollectorRegistry()
    registry.register(OutboxCollector(full(shops).app))
    text = openmetrics.generate_latest(registry).decode()  # type: ignore[no-untyped-call]
    found = {family.name for family in strict(text)}  # type: ignore[no-untyped-call]
    assert {"outbox_time_to_accepted_seconds", "outbox_attempts", "outbox_up"} <= found


def test_a_scrape_within_a_threads_transaction_takes_nothing_of_it_back(shops: Shops) -> None:
    shop = shops.open()
    session, registry = scoped_session(sessionmaker(shop.engine)), CollectorRegistry()
    registry.register(OutboxCollector(shop.app))

    @shop.app.teardown_appcontext
    def end(_: object) -> None:
        session.remove()

    with shop.app.app_context():
        shop.outbox.enqueue(message(), session=session)
        assert b"outbox_up 1.0" in generate_latest(registry)
        session.commit()
    assert shop.count(shop.tables.email) == 1


def test_a_command_prints_them(shops: Shops) -> None:
    shop = full(shops)
    assert samples(runner(shop)("metrics").output).keys() == samples(shop.outbox.metrics()).keys()
