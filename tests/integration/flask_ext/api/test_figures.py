"""`Outbox.stats` and `Outbox.health`: typed figures, and a probe that never raises."""

from __future__ import annotations

import dataclasses
from datetime import UTC

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from outbox import InvalidMessage, Priority, Status
from outbox.domain.delivery.breaker_timing import BreakerState, Cause
from outbox.store.control import beat, circuit_breaker
from outbox.store.control.rate_limits import take
from outbox.store.schema.version import VERSION
from outbox.store.transitions.rescue import rescue
from tests.support.servers.ports import free_port
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import LEASE, WORKER, Shop, Shops, sent

pytestmark = pytest.mark.one_database("postgresql")

SERVER = "127.0.0.1:1"


def test_stats_are_typed_and_complete(shops: Shops) -> None:
    shop = shops.open(
        OUTBOX_DOMAIN_RATES={"gmail.com": "1/day"}, OUTBOX_REDIRECT_TO="dev@shop.example"
    )
    done = shop.enqueue()
    made = shop.sending(done.id)
    shop.record(made.token, [sent(done.id)])
    shop.enqueue("a@gmail.com", priority="bulk")
    rate = shop.runtime.lanes.domains["gmail.com"]
    take(shop.database, {"domain:gmail.com": (rate, 1)})
    shop.outbox.pause()
    shop.outbox.pause("urgent")
    stats = shop.outbox.stats()
    assert stats.statuses == {s: int(s in (Status.SENT, Status.PENDING)) for s in Status}
    assert stats.due == {Priority.URGENT: 0, Priority.NORMAL: 0, Priority.BULK: 1}
    assert stats.lanes == {"@gmail.com": 1}
    [limited] = stats.rate_limited
    assert (limited.bucket, limited.opens_in > 3600) == ("domain:gmail.com", True)
    assert (stats.all_paused, stats.paused) == (True, frozenset({Priority.URGENT}))
    assert (stats.batches_in_flight, stats.counters) == (1, {})
    assert (stats.redirect_to, stats.suppressed) == ("dev@shop.example", False)
    [server] = stats.servers
    assert (server.server, server.state, server.since) == (SERVER, BreakerState.CLOSED, None)
    figures = parsed(runner(shop)("stats", "--json"))
    assert figures["paused"] == ["all", "urgent"]
    assert list(figures) == [
        field.name for field in dataclasses.fields(stats) if field.name != "all_paused"
    ]


def test_how_a_halted_server_stands(shop: Shop) -> None:
    circuit_breaker.trip(
        shop.database, SERVER, cause=Cause.SESSION, reason="connect: refused", alert=True
    )
    [server] = shop.outbox.stats().servers
    assert (server.state, server.alert, server.reason) == (
        BreakerState.OPEN,
        True,
        "connect: refused",
    )
    assert server.since is not None
    assert server.next_probe is not None
    assert server.since.tzinfo is UTC
    assert server.next_probe > server.since
    health = shop.outbox.health()
    assert (health.healthy, health.alerts) == (False, (server,))
    shown = parsed(runner(shop)("stats", "--json"))["servers"][0]
    assert shown["since"] == server.since.isoformat()
    assert list(shown) == [field.name for field in dataclasses.fields(server)]


def test_health_measures_by_its_limit(shop: Shop) -> None:
    health = shop.outbox.health()
    assert (health.healthy, health.limit, health.problems) == (True, 300.0, ())
    assert (health.oldest_due_seconds, health.oldest_claimed_seconds) == (0.0, 0.0)
    shop.enqueue()
    shop.later(301)
    late = shop.outbox.health()
    assert not late.healthy
    assert late.oldest_due_seconds is not None
    assert 301 <= late.oldest_due_seconds < 360
    assert shop.outbox.health(max_age=1000).healthy
    assert shop.outbox.health(1000).limit == 1000.0


@pytest.mark.each_database
def test_health_counts_what_is_due_claimed_and_stuck(shop: Shop) -> None:
    for _ in range(2):
        shop.enqueue()
    shop.claim(limit=1)
    health = shop.outbox.health()
    assert (health.due, health.claimed, health.stuck) == (1, 1, 0)
    shop.later(301)
    health = shop.outbox.health()
    assert (health.healthy, health.due, health.claimed, health.stuck) == (False, 1, 1, 2)
    assert "2 emails have been due or claimed for over 300 s" in health.problems
    figures = parsed(runner(shop)("health", "--json", code=1))
    assert (figures["due"], figures["claimed"], figures["stuck"]) == (1, 1, 2)
    assert figures["beat_seconds"] is None


@pytest.mark.each_database
def test_health_sees_an_email_whose_worker_died_while_nothing_sweeps(shop: Shop) -> None:
    shop.sending(shop.enqueue().id)
    shop.later(LEASE + 200)
    assert shop.outbox.health().healthy
    shop.later(200)
    health = shop.outbox.health()
    assert not health.healthy
    assert health.problems[0].startswith("a lease ran out ")
    shop.rescue()
    assert shop.outbox.health().healthy


def test_health_sees_that_beat_has_stopped_before_an_email_is_late(shop: Shop) -> None:
    beat.note(shop.database)
    shop.later(600)
    assert shop.outbox.health().healthy
    shop.later(100)
    health = shop.outbox.health()
    assert (health.healthy, health.oldest_due_seconds) == (False, 0.0)
    assert health.problems[0].startswith("no task of beat was seen for 70")
    assert shop.outbox.health(max_age=1000).healthy


@pytest.mark.databases("postgresql", "sqlite")
@pytest.mark.one_database("postgresql")
def test_health_sees_a_forgotten_migration(shop: Shop) -> None:
    older = f"ix_outbox_schema_{VERSION - 1}"
    with shop.engine.begin() as connection:
        connection.execute(sa.text(f"DROP INDEX ix_outbox_schema_{VERSION}"))
        connection.execute(sa.text(f"CREATE INDEX {older} ON outbox_pause (paused_at)"))
    health = shop.outbox.health(ask=False)
    assert not health.healthy
    assert "the database is older, run your migrations" in health.problems[0]
    assert "the database is older" in runner(shop)("drain", code=1).output
    with shop.engine.begin() as connection:
        connection.execute(
            sa.text(f"CREATE INDEX ix_outbox_schema_{VERSION} ON outbox_pause (scope)")
        )
    assert shop.outbox.health(ask=False).healthy


@pytest.mark.long
def test_health_is_bad_and_raises_nothing_where_the_tables_are_missing(shop: Shop) -> None:
    with shop.engine.begin() as connection:
        shop.tables.attempt.drop(connection)
        shop.tables.recipient.drop(connection)
        shop.tables.email.drop(connection)
    health = shop.outbox.health()
    assert not health.healthy
    assert any("outbox_email is missing" in problem for problem in health.problems)
    assert (health.oldest_due_seconds, health.servers) == (None, ())
    assert set(parsed(runner(shop)("health", "--json", code=1))) == {
        "healthy",
        "limit",
        "problems",
    }


@pytest.mark.databases("postgresql")
def test_health_is_bad_and_raises_nothing_where_the_database_is_away(shops: Shops) -> None:
    away = sa.make_url(shops.url).set(port=free_port())
    shop = shops.open()
    engine = sa.create_engine(away)
    try:
        shop.runtime._engine = lambda: engine
        vars(shop.runtime).pop("database", None)
        health = shop.outbox.health(max_age=10)
    finally:
        engine.dispose()
    assert (health.healthy, health.limit) == (False, 10.0)
    address = f"postgresql://127.0.0.1:{away.port}/{away.database}"
    remedy = "start it, or mend the host, the port or the login in the engine's URL"
    told = f"the database {address} cannot be reached (OperationalError): {remedy}"
    assert health.problems == (told,)


@pytest.mark.long
def test_health_is_bad_where_the_database_was_away_for_a_moment(shop: Shop) -> None:
    failures = [OperationalError("SELECT", {}, Exception("gone"))]

    def fail_once(*_: object) -> None:
        if failures:
            raise failures.pop()

    sa.event.listen(shop.engine, "before_cursor_execute", fail_once)
    health = shop.outbox.health()
    assert not failures
    [problem] = health.problems
    assert not health.healthy
    assert problem.startswith("the database ")
    assert problem.endswith(" failed (Exception): see its own log, and try again")
    assert shop.outbox.health().healthy


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("given", [-1, float("nan"), float("inf"), 1e10, "10", True])
def test_health_names_the_limit_that_is_none(shop: Shop, given: object) -> None:
    with pytest.raises(InvalidMessage, match="max_age: must be seconds from 0 to 1000000000"):
        shop.outbox.health(given)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.each_database
def test_progress_tells_which_batches_have_a_tags_emails_and_when_they_are_rescued(
    shop: Shop,
) -> None:
    first = shop.enqueue(tag="news")
    shop.enqueue(tag="news")
    made = shop.sending(first.id)
    shop.enqueue(tag="news")
    shop.enqueue(tag="other")
    found = shop.outbox.progress("news")
    expected = {Status.PENDING: 1, Status.CLAIMED: 1, Status.SENDING: 1}
    assert found.statuses == {status: expected.get(status, 0) for status in Status}
    assert (found.in_doubt, found.next_due_seconds) == (0, 0.0)
    [batch] = found.batches
    assert (batch.emails, batch.sending, batch.worker) == (2, 1, WORKER)
    assert not batch.is_silent
    assert LEASE - 10 < batch.lease_seconds <= LEASE
    assert batch.rescue_seconds == pytest.approx(batch.lease_seconds + LEASE, abs=0.01)

    shop.later(LEASE - 5)
    [batch] = shop.outbox.progress("news").batches
    assert (batch.is_silent, batch.lease_seconds < 6) == (True, True)
    shop.later(10)
    judge(shop)  # a sweep sees that it ran out
    [batch] = shop.outbox.progress().batches
    assert batch.lease_seconds < 0
    assert LEASE - 10 < batch.rescue_seconds <= LEASE
    shop.later(10)
    [batch] = shop.outbox.progress().batches
    assert batch.rescue_seconds <= LEASE - 10
    shop.later(LEASE)
    judge(shop)
    found = shop.outbox.progress("news")
    assert (found.in_doubt, found.batches) == (1, ())
    assert found.statuses[Status.PENDING] == 3

    shop.record(made.token, [sent(first.id)])  # the lost worker comes back: its verdict settles it
    assert shop.outbox.progress("news").in_doubt == 0


def test_progress_of_a_batch_that_no_task_has_started(shop: Shop) -> None:
    shop.enqueue()
    shop.claim()
    [batch] = shop.outbox.progress().batches
    assert (batch.worker, batch.started_at, batch.is_silent) == (None, None, False)
    assert batch.rescue_seconds == batch.lease_seconds
    shop.later(LEASE + 1)
    [batch] = shop.outbox.progress().batches
    assert (batch.rescue_seconds, batch.is_silent) == (0.0, False)
    told = runner(shop)("progress").output
    assert "no worker has started it; it goes back with the next sweep, and none comes" in told


def test_the_command_progress_prints_what_the_verb_returns(shop: Shop) -> None:
    first = shop.enqueue(tag="news")
    shop.sending(first.id)
    run = runner(shop)
    assert "normal batch of 1, 1 in the open window: host:1 has it" in run("progress").output
    shop.later(LEASE - 5)
    assert "host:1 is silent; its emails are rescued in" in run("progress", "--tag=news").output
    shown = parsed(run("progress", "--json"))
    assert shown["statuses"]["sending"] == 1
    assert shown["batches"][0]["is_silent"] is True
    assert parsed(run("progress", "--json", "--tag=none"))["batches"] == []


def judge(shop: Shop) -> None:
    rescue(shop.database, shop.runtime.settings, random=lambda: 0.5)
