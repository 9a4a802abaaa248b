"""What the commands and the log tell of several servers, halts, alerts and redirection."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from outbox import ConfigurationError
from outbox.domain.delivery.breaker_timing import Cause
from outbox.flask_ext.management.checks import settings
from outbox.store.control import circuit_breaker
from outbox.worker.broker.queues import QUEUES, beat_schedule
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop, Shops
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_database("sqlite")

SERVERS = [
    {"name": "ses", "server": "127.0.0.1", "port": 1, "connections": 2, "order": 2},
    {"name": "own", "server": "127.0.0.1", "port": 2},
]
NEWS = {"name": "bulk", "tag": "news-*", "servers": ["ses"]}


def opened(shops: Shops, **config: Any) -> Shop:
    shop = shops.open(OUTBOX_SERVERS=SERVERS, OUTBOX_ROUTES=[NEWS], **config)
    celery = Celery("shop", broker="memory://", set_as_current=False)  # it can be reached
    celery.conf.beat_schedule = beat_schedule()
    celery.conf.task_queues = QUEUES
    shop.app.extensions["celery"] = celery
    return shop


def halted(shop: Shop, server: str = "own", **options: Any) -> None:
    values: dict[str, Any] = {
        "cause": Cause.SESSION,
        "reason": "auth: 535 no \u202e entry",
        "alert": True,
    } | options
    circuit_breaker.trip(shop.database, server, **values)


def test_check_names_servers_routes_and_what_is_not_encrypted(shops: Shops) -> None:
    texts = [f["text"] for f in parsed(runner(opened(shops))("check", "--json"))]
    assert "settings are valid; emails go to own, ses" in texts
    assert {"route bulk: ses", "route default: own, ses"} <= set(texts)
    assert sum("SMTP is not encrypted" in text for text in texts) == 2


@pytest.mark.parametrize(
    ("host", "level"),
    [
        ("localhost", "ok"),
        ("127.0.0.2", "ok"),
        ("::1", "ok"),
        ("mx.example", "warn"),
        ("127.example", "warn"),
    ],
)
def test_a_server_on_this_host_needs_no_encryption(shops: Shops, host: str, level: str) -> None:
    findings = parsed(runner(shops.open(MAIL_SERVER=host))("check", "--json", code=1))
    [found] = [one for one in findings if one["code"] == "smtp-in-clear"]
    assert found["level"] == level
    assert "SMTP is not encrypted" in found["text"]


@pytest.mark.long
def test_check_names_the_settings_that_stand_in_the_environment_alone(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner(opened(shops, OUTBOX_SLOTS=3))
    monkeypatch.setenv("OUTBOX_SLOTS", "3")
    monkeypatch.setenv("OUTBOX_OF_SOMEBODY_ELSE", "1")
    assert "the environment" not in run("check").output
    monkeypatch.setenv("OUTBOX_REDIRECT_TO", "ada@x.example")
    monkeypatch.setenv("OUTBOX_RATE", "1/s")
    output = run("check").output
    assert "the environment has OUTBOX_RATE, OUTBOX_REDIRECT_TO, but app.config does not" in output
    assert "ada@" not in output


@pytest.mark.long
def test_check_fails_where_a_server_needs_a_person(shops: Shops) -> None:
    shop = opened(shops)
    run = runner(shop)
    halted(shop, alert=False, cause=Cause.SESSION, reason="connect: refused")
    levels = {f["text"]: f["level"] for f in parsed(run("check", "--json"))}
    assert {level for text, level in levels.items() if "own is halted" in text} == {"warn"}
    halted(shop)
    levels = {f["text"]: f["level"] for f in parsed(run("check", "--json", code=1))}
    (found,) = (text for text in levels if "halted" in text)
    assert levels[found] == "error"
    assert found.startswith("ALERT: own is halted since")
    assert "next probe" in found
    assert "auth: 535 no \ufffd entry (mend its" in found  # a stranger's text steers no terminal


def test_stats_show_how_every_server_stands(shops: Shops) -> None:
    shop = opened(shops)
    run = runner(shop)
    assert "server own: no fault is known" in run("stats").output
    halted(shop)
    figures = parsed(run("stats", "--json"))
    own, ses = figures["servers"]
    assert (own["server"], own["state"], own["alert"]) == ("own", "open", True)
    assert (own["reason"], own["failures"]) == ("auth: 535 no \u202e entry", 1)
    assert own["since"] < own["next_probe"]
    assert (ses["server"], ses["state"], ses["connections"]) == ("ses", "closed", 0)
    assert "ALERT: own is halted since" in run("stats").output
    circuit_breaker.close(shop.database, "own")
    assert "server own: recovering, 1 batch at once" in run("stats").output


def test_health_exits_1_on_an_alert_and_not_on_an_outage(shops: Shops) -> None:
    shop = opened(shops)
    run = runner(shop)
    halted(shop, alert=False, cause=Cause.SESSION, reason="connect: refused")
    assert parsed(run("health", "--json"))["alerts"] == []
    assert "own is halted since" in run("health").output
    halted(shop)
    figures = parsed(run("health", "--json", code=1))
    assert figures["healthy"] is False
    assert [one["server"] for one in figures["alerts"]] == ["own"]
    assert "ALERT: own is halted" in run("health", code=1).output
    circuit_breaker.close(shop.database, "own")
    assert parsed(run("health", "--json"))["healthy"] is True


def test_an_alert_of_a_server_that_is_gone_is_shown_and_wakes_nobody(shops: Shops) -> None:
    shop = opened(shops)
    halted(shop, "gone")
    run = runner(shop)
    run("health")
    run("drain")
    assert "is no longer configured" in run("check").output


def test_redirection_is_told_by_check_and_stats_and_once_in_the_log(
    shops: Shops, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "outbox"):
        shop = opened(shops, OUTBOX_REDIRECT_TO="dev@example.com")
    assert caplog.text.count("OUTBOX_REDIRECT_TO is set") == 1
    assert "dev@example.com" not in caplog.text
    run = runner(shop)
    assert "every email goes to dev@example.com" in run("check").output
    assert "every email goes to dev@example.com" in run("stats").output
    assert parsed(run("stats", "--json"))["redirect_to"] == "dev@example.com"


def test_a_workers_start_does_not_log_to_whom_emails_are_redirected(
    shops: Shops, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = opened(shops, OUTBOX_REDIRECT_TO="dev@example.com")
    shop.app.config["MAIL_SUPPRESS_SEND"] = True
    monkeypatch.setattr(settings, "runtime_of", lambda _: shop.runtime)
    with caplog.at_level(logging.WARNING, "outbox"):
        settings._tell(SimpleNamespace(app=None))  # what Celery's signal calls
    assert "MAIL_SUPPRESS_SEND" in caplog.text
    assert "@" not in caplog.text


def test_without_redirection_nothing_is_told(
    shops: Shops, caplog: pytest.LogCaptureFixture
) -> None:
    run = runner(opened(shops))
    assert json.loads(run("stats", "--json").stdout)["redirect_to"] is None
    assert "REDIRECT" not in caplog.text + run("check").output + run("stats").output


@pytest.mark.databases("sqlite")
def test_wrong_servers_and_routes_are_told_at_the_start(shops: Shops) -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean port\?"):
        shops.open(OUTBOX_SERVERS=[{"server": "a", "prt": 25}])
    with pytest.raises(ConfigurationError, match=r"did you mean own\?"):
        shops.open(OUTBOX_SERVERS=SERVERS, OUTBOX_ROUTES=[NEWS | {"servers": ["owm"]}])


@pytest.mark.databases("sqlite")
def test_a_connection_is_kept_open_for_each_server(shops: Shops) -> None:
    with Catcher() as one, Catcher() as two:
        ports = {"one": one.port, "two": two.port}
        servers = [{"name": n, "server": "127.0.0.1", "port": p} for n, p in ports.items()]
        runtime = shops.open(OUTBOX_SERVERS=servers).runtime
        for server in (*runtime.servers, *runtime.servers):
            with runtime.connections.lend(server) as connection:
                assert connection.connect() is None
        first = runtime.servers[0]
        with (
            runtime.connections.lend(first) as connection,
            runtime.connections.lend(first) as second,
        ):
            assert connection is not second
        assert (one.sessions, two.sessions) == (1, 1)
        runtime.disconnect()


@pytest.mark.databases("sqlite")
def test_a_server_with_a_cap_sees_no_idle_connection(shops: Shops, catcher: Catcher) -> None:
    server = {"server": "127.0.0.1", "port": catcher.port, "connections": 1}
    runtime = shops.open(OUTBOX_SERVERS=[server]).runtime
    with runtime.connections.lend(runtime.servers[0]) as connection:
        assert connection.connect() is None
        wait_until(lambda: catcher.open_sessions == 1, 10, "the connection")
    wait_until(lambda: catcher.open_sessions == 0, 10, "its end")
