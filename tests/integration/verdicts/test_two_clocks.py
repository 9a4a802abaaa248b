"""The email's own clock and the server's: each reply sets the one that it is about, no other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.scripted import HELLO, ScriptedServer, expect, serve
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop, Shops, addresses

pytestmark = pytest.mark.one_database("postgresql")

EHLO_AUTH = expect("EHLO", "250-scripted.example\n250 AUTH PLAIN")


def states(shop: Shop) -> set[tuple[str, int, int]]:
    return {(row.status, row.attempts, row.crashes) for row in shop.rows(shop.tables.email)}


@pytest.mark.long
@pytest.mark.parametrize(
    "reply",
    [
        "450 4.2.1 The user is receiving mail at a rate that is too high; retry in 600 seconds",
        "454 Throttling failure: Maximum sending rate exceeded, try again in 10 minutes",
        "421 4.7.0 Try again later: back in 600 s",
    ],
)
def test_a_providers_throttle_halts_the_server_and_who_was_told_a_time_waits_for_it(
    sending: Shop, catcher: Catcher, reply: str
) -> None:
    for address in addresses(10):
        sending.enqueue(address)
    catcher.reply_to_recipient = lambda _: reply
    drain(sending.runtime)
    assert states(sending) == {("pending", 0, 0)}
    (row,) = sending.rows(sending.tables.breaker)
    assert not row.alert
    assert timedelta(seconds=29) <= row.retry_at - row.opened_at <= timedelta(seconds=31)
    catcher.reply_to_recipient = lambda _: None
    sending.later(31)
    drain(sending.runtime)
    told = [row for row in sending.rows(sending.tables.email) if row.status == "pending"]
    assert [row.waited for row in told] == [600, 600], "the two that were asked with"
    sending.later(10)  # the ramp
    drain(sending.runtime)
    assert sending.statuses().count("sent") == 8
    sending.later(590)
    drain(sending.runtime)
    assert states(sending) == {("sent", 1, 0)}


@pytest.mark.parametrize(
    ("reply", "least", "most"),
    [
        ("450 4.2.0 later", 1, 30),
        ("451 4.7.1 Greylisted", 60, 66),
        ("451 4.7.1 Greylisted, try again in 300 seconds", 300, 330),
        ("450 4.5.1 please retry after 2 minutes", 120, 132),
    ],
)
def test_an_email_that_was_put_off_waits_for_its_own_time_and_the_server_goes_on(
    sending: Shop, catcher: Catcher, reply: str, least: int, most: int
) -> None:
    put_off = sending.enqueue("later@x.example")
    fine = sending.enqueue("fine@x.example")
    catcher.reply_to_recipient = lambda address: reply if address[0] == "l" else None
    drain(sending.runtime)
    row = sending.email_row(put_off.id)
    assert (row.status, row.attempts) == ("pending", 1)
    assert sending.status(fine.id) == "sent"
    (attempt,) = sending.rows(
        sending.tables.attempt, sending.tables.attempt.c.email_id == put_off.id
    )
    waits = row.due_at - attempt.finished_at
    assert timedelta(seconds=least - 1) <= waits <= timedelta(seconds=most + 5)
    assert sending.count(sending.tables.breaker) == 0


REFUSING = (HELLO[0], EHLO_AUTH, expect("AUTH", "535 5.7.8 wrong"))
MENDED = (HELLO[0], EHLO_AUTH, expect("AUTH", "235 welcome"), serve)
LOGIN: dict[str, Any] = {
    "MAIL_USERNAME": "jo",
    "MAIL_PASSWORD": "hunter2",
    "OUTBOX_CLEARTEXT_AUTH": True,
}


def test_credentials_that_are_refused_once_are_tried_again_after_seconds(shops: Shops) -> None:
    """An overloaded directory refuses one login: that halts the only server for no five minutes."""
    with ScriptedServer(REFUSING, MENDED) as server:
        shop = shops.open(MAIL_PORT=server.port, **LOGIN)
        shop.enqueue()
        drain(shop.runtime)
        assert (states(shop), drain(shop.runtime)) == ({("pending", 0, 0)}, 0)
        shop.later(6)
        drain(shop.runtime)
        assert states(shop) == {("sent", 1, 0)}
        assert len(server.dialogues) == 2
        assert parsed(runner(shop)("health", "--json"))["alerts"] == []
        shop.runtime.disconnect()


@pytest.mark.long
def test_refused_credentials_charge_nobody_alert_and_wait_for_a_person(shops: Shops) -> None:
    with ScriptedServer(REFUSING, REFUSING, MENDED) as server:
        shop = shops.open(MAIL_PORT=server.port, **LOGIN)
        run = runner(shop)
        shop.enqueue()
        drain(shop.runtime)
        assert states(shop) == {("pending", 0, 0)}
        figures = parsed(run("health", "--json", code=1))
        assert [one["reason"][:9] for one in figures["alerts"]] == ["auth: 535"]
        assert "ALERT" in run("check", code=1).output
        assert "hunter2" not in run("check", code=1).output + run("stats").output
        shop.later(6)
        drain(shop.runtime)
        assert (len(server.dialogues), states(shop)) == (2, {("pending", 0, 0)})
        shop.later(290)
        assert drain(shop.runtime) == 0
        shop.later(20)
        drain(shop.runtime)
        assert states(shop) == {("sent", 1, 0)}
        assert parsed(run("health", "--json"))["alerts"] == []
        shop.runtime.disconnect()
