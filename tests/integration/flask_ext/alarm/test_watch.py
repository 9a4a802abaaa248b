"""`outbox.watch` and `flask outbox watch` tell when the health turns: once, and to somebody."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest
import sqlalchemy as sa
from flask import Flask

from outbox import ConfigurationError, Outbox, outbox_health_changed
from outbox.domain.delivery.breaker_timing import Cause
from outbox.flask_ext.alarm import verbs
from outbox.store.control import circuit_breaker
from outbox.store.control.health_mark import turn
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.one_database("postgresql")

Heard = list[tuple[bool, tuple[str, ...]]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """What the signal told."""
    found: Heard = []

    def hear(app: Flask, *, healthy: bool, problems: tuple[str, ...]) -> None:
        found.append((healthy, problems))

    with outbox_health_changed.connected_to(hear):
        yield found


def late(shop: Shop) -> int:
    """Have an email wait for too long; return its id."""
    email = shop.enqueue()
    shop.later(301)
    return email.id


@pytest.mark.each_database
def test_it_tells_once_when_the_health_turns_and_once_when_it_is_back(
    shop: Shop, heard: Heard
) -> None:
    assert shop.outbox.watch() is None
    email_id = late(shop)
    health = shop.outbox.watch()
    assert health is not None
    assert not health.healthy
    assert shop.outbox.watch() is None
    shop.outbox.cancel_now(email_id)
    assert [shop.outbox.watch() is None for _ in range(2)] == [False, True]
    [(is_well, problems), back] = heard
    assert (is_well, back) == (False, (True, ()))
    assert "been due or claimed for over 300 s" in problems[0]
    assert shop.outbox.stats().counters == {}


@pytest.mark.databases("sqlite")
def test_within_a_transaction_that_writes_it_is_refused_where_there_is_one_writer(
    shop: Shop, heard: Heard
) -> None:
    late(shop)
    health = shop.outbox.health()
    with shop.session() as session:
        shop.order(session)
        for watch in (shop.outbox.watch, lambda: shop.outbox.watch_again(health)):
            with pytest.raises(ConfigurationError, match="one writer"):
                watch()
        session.rollback()
    assert heard == []


@pytest.mark.long
@pytest.mark.each_database
def test_of_several_who_see_it_turn_one_tells(shop: Shop) -> None:
    def see(healthy: bool) -> bool:
        return turn(shop.database, healthy=healthy)

    for healthy in (False, True, False):
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(see, [healthy] * 8)).count(True) == 1


def test_a_servers_own_words_are_not_told(shop: Shop, heard: Heard) -> None:
    words = "535 ada@customers.example is unknown"
    circuit_breaker.trip(
        shop.database, "127.0.0.1:1", cause=Cause.SESSION, reason=words, alert=True
    )
    shop.outbox.watch()
    assert heard == [(False, ("server 127.0.0.1:1 needs a person",))]


def test_a_receivers_error_is_logged_and_changes_nothing(
    shop: Shop, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(app: Flask, **told: Any) -> NoReturn:
        raise ValueError("ada@customers.example")

    late(shop)
    with outbox_health_changed.connected_to(fails), caplog.at_level(logging.ERROR, "outbox"):
        assert shop.outbox.watch() is not None
    assert len(heard) == 1
    assert "fails of outbox-health-changed failed (ValueError)" in caplog.text
    assert "ada@" not in caplog.text


def test_while_the_database_is_away_a_process_tells_so_once(heard: Heard) -> None:
    away = sa.create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none")
    app, outbox = Flask("away"), Outbox()
    outbox.init_app(app, metadata=sa.MetaData(), engine=away)
    assert [outbox.watch() is None for _ in range(3)] == [False, True, True]
    assert [healthy for healthy, _ in heard] == [False]


def script(path: Path, code: int) -> list[str]:
    """Return a command that writes down what it was told, and then exits with this code."""
    program = (
        "import os, pathlib, sys;"
        f" pathlib.Path({str(path)!r}).write_text(os.environ['OUTBOX_HEALTH'] + sys.stdin.read());"
        f" sys.exit({code})"
    )
    return ["--", sys.executable, "-c", program]


def test_the_command_runs_another_one_when_the_health_turns(shop: Shop, tmp_path: Path) -> None:
    run, note = runner(shop), tmp_path / "note"
    assert run("watch", *script(note, 0)).output == ""
    assert not note.exists()
    late(shop)
    assert run("watch", *script(note, 0)).output.startswith("outbox: unhealthy\n1 email has been")
    assert note.read_text().startswith("unhealthy1 email has been due")
    assert run("watch").output == ""


@pytest.mark.parametrize("option", ["--max_age=60", "--json", "-m"])
def test_a_misspelt_option_is_no_command(shop: Shop, option: str) -> None:
    run = runner(shop)
    late(shop)
    refused = run("watch", option, *script(Path("/dev/null"), 0), code=2)
    assert "No such option" in refused.output
    assert run("watch").output.startswith("outbox: unhealthy"), "nobody was told yet"


def test_what_stands_behind_the_command_is_the_commands_own(shop: Shop, tmp_path: Path) -> None:
    late(shop)
    written = tmp_path / "--max-age"
    runner(shop)("watch", "sh", "-c", 'cat > "$0/$1"', str(tmp_path), "--max-age")
    assert written.read_text().startswith("1 email has been due")


@pytest.mark.long
@pytest.mark.parametrize("command", [script(Path("/dev/null"), 3), ["--", "/no/such/program"]])
def test_if_the_command_fails_the_next_watch_tells_again(shop: Shop, command: list[str]) -> None:
    run = runner(shop)
    late(shop)
    failed = run("watch", *command, code=1)
    assert "the next watch tells again" in failed.output
    assert run("watch").output.startswith("outbox: unhealthy")
    assert run("watch").output == ""


@pytest.mark.parametrize("healthy", [True, False])
def test_if_the_process_is_ended_when_the_turn_is_noted_the_next_watch_tells(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, healthy: bool
) -> None:
    """The error is a double: no signal comes just behind the commit."""

    def ends(*given: Any, **named: Any) -> NoReturn:
        monkeypatch.undo()
        turn(*given, **named)
        raise SystemExit(3)

    late(shop)
    if healthy:
        shop.outbox.watch()
        shop.outbox.cancel_now(1)
    monkeypatch.setattr(verbs, "turn", ends)
    with pytest.raises(SystemExit):
        shop.outbox.watch()
    assert [shop.outbox.watch() is None for _ in range(2)] == [False, True]


def test_where_nothing_has_turned_nothing_is_told_again(shop: Shop) -> None:
    shop.outbox.watch_again(shop.outbox.watch())
    assert shop.outbox.watch() is None


def test_if_a_receiver_ends_the_process_the_next_watch_tells_again(shop: Shop) -> None:
    def ends(app: Flask, **told: Any) -> NoReturn:
        raise SystemExit(3)

    late(shop)
    with outbox_health_changed.connected_to(ends), pytest.raises(SystemExit):
        shop.outbox.watch()
    assert shop.outbox.watch() is not None
    assert shop.outbox.watch() is None
