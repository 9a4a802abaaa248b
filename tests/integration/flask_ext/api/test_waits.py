"""`Outbox.get` and `flask outbox show` say why an email is not sent yet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from outbox import Priority, Status
from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.store.control import beat, circuit_breaker
from outbox.store.control.connection_caps import take_server
from outbox.store.control.rate_limits import take
from outbox.store.schema.clock import utc
from tests.support.shop.shell import runner, stuck
from tests.support.shop.shop import LEASE, START, WORKER, Shop, Shops, entry, sent

pytestmark = pytest.mark.each_database

NEVER = "due, and waits for the next sweep (beat was never seen)"


def waits(shop: Shop, email_id: int) -> list[str]:
    found = shop.outbox.get(email_id)
    assert found is not None
    return list(found.waits)


def at(shop: Shop, email_id: int) -> str:
    """Return when the email is due, as a reason has it."""
    return f"{utc(shop.email_row(email_id).due_at):%Y-%m-%dT%H:%M:%S} UTC"


def put_off(shop: Shop, *, attempts: int) -> int:
    """Return an email that the server put off, charged with so many attempts."""
    email = shop.enqueue()
    made = shop.sending(email.id)
    later = Outcome(
        status=Status.PENDING, reply=Reply(code=451), attempts_added=attempts, delay=600.0
    )
    shop.record(made.token, [entry(email.id, later, Verdict.RETRY, phase=Phase.RCPT)])
    return email.id


def test_an_email_that_is_due_waits_for_a_sweep(shop: Shop) -> None:
    email = shop.enqueue()
    assert waits(shop, email.id) == [NEVER]
    beat.note(shop.database)
    shop.later(30)
    (reason,) = waits(shop, email.id)
    assert reason.startswith("due, and waits for the next sweep (beat was seen 3")


@pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN])
def test_an_email_that_has_ended_waits_for_nothing(shop: Shop, status: Status) -> None:
    assert waits(shop, stuck(shop, status)) == []
    email = shop.enqueue()
    shop.record(shop.sending(email.id).token, [sent(email.id)])
    shop.outbox.pause()
    assert waits(shop, email.id) == []


def test_a_scheduled_email_has_its_time(shop: Shop) -> None:
    email = shop.enqueue(send_at=START.replace(year=2400))
    assert waits(shop, email.id) == [f"scheduled: its send_at is {at(shop, email.id)}"]
    assert at(shop, email.id).startswith("2400-")


def test_an_email_that_was_put_off_has_the_end_of_its_backoff(shop: Shop) -> None:
    charged, uncharged = put_off(shop, attempts=1), put_off(shop, attempts=0)
    assert waits(shop, charged) == [f"backoff until {at(shop, charged)}, after 1 attempt"]
    due = at(shop, uncharged)
    assert waits(shop, uncharged) == [f"put off until {due}; no attempt was charged"]


def test_an_email_in_doubt_says_so(shop: Shop) -> None:
    email = shop.enqueue()
    shop.sending(email.id)
    shop.rescue()
    assert waits(shop, email.id) == [f"in doubt, and sent again from {at(shop, email.id)} on"]


def test_a_pause_is_told_to_those_whom_it_holds(shop: Shop) -> None:
    bulk, normal = shop.enqueue(priority=Priority.BULK), shop.enqueue()
    shop.outbox.pause("bulk")
    assert waits(shop, bulk.id)[0] == "paused: bulk (flask outbox resume bulk)"
    assert waits(shop, normal.id) == [NEVER]
    shop.outbox.pause()
    assert waits(shop, normal.id)[0] == "paused: all (flask outbox resume all)"


def test_an_app_that_sends_nothing_says_so(shops: Shops) -> None:
    shop = shops.open(MAIL_SUPPRESS_SEND=True)
    assert waits(shop, shop.enqueue().id) == ["MAIL_SUPPRESS_SEND is on, so nothing is sent"]


@pytest.mark.long
def test_an_email_to_suppressed_people_will_end_so(shop: Shop) -> None:
    shop.outbox.suppress("Ada@x.example")
    to_her, to_both = shop.enqueue("ada@x.example"), shop.enqueue("ada@x.example", "bob@x.example")
    told = (
        "its recipients are on the suppression list, or erased: when it is due it ends suppressed"
    )
    assert told in waits(shop, to_her.id)
    assert told not in waits(shop, to_both.id)


def test_a_route_whose_servers_are_all_halted_names_them(shops: Shops) -> None:
    servers = [{"name": name, "server": f"{name}.example"} for name in ("own", "ses")]
    shop = shops.open(OUTBOX_SERVERS=servers)
    email = shop.enqueue()
    halt(shop, "own")
    halt(shop, "gone")
    assert waits(shop, email.id) == [NEVER]
    halt(shop, "ses")
    own, ses = waits(shop, email.id)
    assert own.startswith("server own is halted, next probe ")
    assert own.endswith(": connect: refused")
    assert ses.startswith("server ses is halted")


def halt(shop: Shop, name: str) -> None:
    values: dict[str, Any] = {"cause": Cause.SESSION, "reason": "connect: refused", "alert": False}
    circuit_breaker.trip(shop.database, name, **values)


def test_a_server_without_a_free_connection_is_named(shops: Shops) -> None:
    server = {"name": "own", "server": "own.example", "connections": 1}
    shop = shops.open(OUTBOX_SERVERS=[server])
    shop.enqueue()
    assert take_server(shop.database, shop.started().token, ["own"], {"own": 1}) == "own"
    email = shop.enqueue()
    assert waits(shop, email.id) == ["server own has no connection free, of 1"]


def test_a_rate_that_is_used_up_is_told_to_the_emails_under_it(shops: Shops) -> None:
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/day"})
    limited, other = shop.enqueue("a@gmail.com"), shop.enqueue("a@x.example")
    take(shop.database, {"domain:gmail.com": (shop.runtime.lanes.domains["gmail.com"], 1)})
    (reason,) = waits(shop, limited.id)
    assert reason.startswith("the rate domain:gmail.com is used up for 86")
    assert waits(shop, other.id) == [NEVER]


def test_slots_that_are_all_taken_are_told(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SLOTS=1)
    shop.enqueue()
    shop.started()
    email = shop.enqueue()
    told = "1 slot in all (flask outbox workers), and each has a batch: it waits for the end of one"
    assert waits(shop, email.id) == [told]
    shop.later(LEASE + 1)  # it ran out: its slot is free
    assert waits(shop, email.id) == [NEVER]


def test_a_claimed_email_names_its_worker_or_that_there_is_none(shop: Shop) -> None:
    email = shop.enqueue()
    (made,) = shop.claim()
    (reason,) = waits(shop, email.id)
    assert reason.startswith("no worker has taken its batch yet; it goes back in ")
    shop.start(made.token)
    assert waits(shop, email.id) == [f"the worker {WORKER} has its batch"]
    shop.open(made.token, email.id)
    shop.later(LEASE - 5)
    (reason,) = waits(shop, email.id)
    assert reason.startswith(f"its worker {WORKER} is silent; it is rescued in ")


def test_of_a_batch_whose_time_is_over_it_is_told_that_a_sweep_must_come(shop: Shop) -> None:
    email = shop.enqueue()
    shop.claim()
    shop.later(LEASE + 1)
    (reason,) = waits(shop, email.id)
    assert " it goes back with the next sweep, and none comes while the broker" in reason


@pytest.mark.databases("sqlite")
def test_show_prints_each_reason_without_control_characters(shop: Shop) -> None:
    email = shop.enqueue(send_at=START.replace(year=2400))
    shop.outbox.pause()
    due = at(shop, email.id)
    text = runner(shop)("show", email.id).output
    assert f"waits         scheduled: its send_at is {due}\n" in text
    assert "waits         paused: all (flask outbox resume all)\n" in text
    with shop.engine.begin() as connection:
        values = {"due_at": START - timedelta(days=1), "send_at": None}
        connection.execute(sa.update(shop.tables.email).values(**values))
    halt(shop, "127.0.0.1:1")
    with shop.engine.begin() as connection:
        connection.execute(sa.update(shop.tables.breaker).values(reason="a\x1b[31mb"))
    assert "\ufffd[31mb" in runner(shop)("show", email.id).output
