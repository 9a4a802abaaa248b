"""After a restore everything that waits is held, new emails go, and a filter releases others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from outbox import InvalidMessage, JobState, Released, Status
from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.fleet import BEAT
from outbox.flask_ext.restore.pages import release_part
from outbox.store.control import circuit_breaker
from outbox.worker.beat_mark import note_beat
from outbox.worker.drain import drain
from tests.integration.instance import live
from tests.integration.store.jobs.work import now, written
from tests.integration.store.locks import in_time, vanished
from tests.integration.store.transitions.test_uncharge import (
    enqueued,
    judged,
    reviewed,
    taken_back,
)
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.fleet import row, settings_of
from tests.support.shop.fleet import written as seen
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.each_database

ALL: dict[str, Any] = {"tag": None, "priority": None, "scheduled": False, "everything": True}


@pytest.mark.long
def test_what_was_due_claimed_sending_or_scheduled_is_held_and_new_emails_go(
    sending: Shop, catcher: Catcher
) -> None:
    before = live.fill(sending)
    caught = len(catcher.emails)
    assert "4 emails are held" in runner(sending)("restored").output
    sending.later(7 * 86_400)
    assert drain(sending.runtime) == 0
    new = sending.enqueue()
    assert drain(sending.runtime) == 1
    assert (sending.status(new.id), len(catcher.emails) - caught) == (Status.SENT, 1)
    waiting = [sending.status(before[name]) for name in ("sending", "claimed", "due", "scheduled")]
    assert waiting == [Status.PENDING] * 4
    assert sending.email_row(before["sending"]).unknown_count == 1, "it came into doubt"
    assert sending.count(sending.tables.lease) == 0
    assert "held since a restore" in sending.outbox.get(before["due"]).waits[0]  # type: ignore[union-attr]
    assert "4 emails are held since a restore" in runner(sending)("check", code=1).output
    assert sending.outbox.health().healthy
    assert sending.outbox.progress().next_due_seconds is None


def test_moved_promises_nothing_while_a_restore_has_not_ended(shop: Shop) -> None:
    now = shop.database.now()
    shop.outbox.restored()
    with shop.engine.begin() as connection:  # as one leaves it that was interrupted
        connection.execute(sa.update(shop.tables.instance).values(holding_at=now))
    told = runner(shop)("moved", code=1).output
    assert told == "Error: `flask outbox restored` has not come to its end: run it again\n"
    assert [one.action for one in shop.outbox.audit()] == []
    runner(shop)("restored")
    assert "sends from here" in runner(shop)("moved").output


def test_what_ran_where_the_tables_came_from_is_forgotten(sending: Shop) -> None:
    [server] = [one.server for one in sending.outbox.stats().servers]
    alike = {"settings": settings_of(sending.runtime)}
    for name in ("celery@production", "beat@production"):
        seen(sending, row(name, pool=BEAT if "beat" in name else "prefork", **alike))
    note_beat(sending.runtime)
    circuit_breaker.trip(sending.database, server, cause=Cause.SESSION, reason="535", alert=True)
    sending.later(3600)
    assert sending.outbox.watch(), "the health turns"
    assert len(sending.outbox.workers().problems) >= 2

    sending.outbox.restored()
    fleet, health = sending.outbox.workers(), sending.outbox.health(ask=False)
    assert (fleet.workers, fleet.beats, fleet.beat_seconds, fleet.problems) == ((), (), None, ())
    assert (health.healthy, health.problems) == (True, ())
    assert sending.outbox.watch() is None, "here it never was bad"


@pytest.mark.long
def test_a_job_that_was_running_is_stopped_and_sends_nothing_again(
    sending: Shop, catcher: Catcher
) -> None:
    ids = written(sending, 2)
    running = sending.outbox.start_job("retry", status="failed")
    stopped = sending.outbox.start_job("retry", status="failed", tag="news")
    sending.outbox.stop_job(stopped.id)
    caught = len(catcher.emails)
    sending.outbox.restored()
    drain(sending.runtime)
    assert (len(catcher.emails) - caught, now(sending, running).changed) == (0, 0)
    assert [sending.status(one) for one in ids] == [Status.FAILED] * 2
    assert [(now(sending, one).state, now(sending, one).reason) for one in (running, stopped)] == [
        (JobState.STOPPED, "the outbox was restored"),
        (JobState.STOPPED, ""),
    ]
    assert sending.outbox.resume_job(running.id), "a person may let it go on"
    drain(sending.runtime)
    assert now(sending, running).changed == 2


def test_a_refusal_from_before_a_restore_is_not_taken_back_after_it(shop: Shop) -> None:
    before = enqueued(shop, 2)
    judged(shop, *before)
    shop.outbox.restored()
    new = shop.enqueue("last@x.example").id
    judged(shop, new)
    assert not reviewed(shop, 3), "three were refused alike, and only one of them since"
    assert taken_back(shop) == 1
    failed, pending = Status.FAILED, Status.PENDING
    assert [shop.status(one) for one in (*before, new)] == [failed, failed, pending]


def test_an_email_that_was_being_sent_and_must_not_be_sent_twice_ends_unknown(
    sending: Shop,
) -> None:
    email = sending.enqueue(on_unknown="hold")
    sending.sending(email.id)
    assert sending.outbox.restored().held == 0
    assert sending.status(email.id) is Status.UNKNOWN


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--tag", "orders"], {"sending", "claimed"}),
        (["--priority", "bulk"], {"due"}),
        (["--tag", "news", "--priority", "normal"], {"scheduled"}),
        (["--scheduled"], {"scheduled"}),
        (["--all"], {"sending", "claimed", "due", "scheduled"}),
    ],
)
def test_a_filter_releases_only_what_it_names(
    sending: Shop, catcher: Catcher, words: list[str], names: set[str]
) -> None:
    before = live.fill(sending)
    sending.outbox.restored()
    caught = len(catcher.emails)
    assert f"{len(names)} email" in runner(sending)("release", *words).output
    left = sum(one["emails"] for one in parsed(runner(sending)("held", "--json")))
    assert left == 4 - len(names)
    sending.later(2 * 86_400)
    assert drain(sending.runtime) == len(names)
    assert len(catcher.emails) - caught == len(names)
    assert {name for name in before if sending.status(before[name]) is Status.SENT} == {
        "sent",
        *names,
    }
    assert ("held since a restore" in runner(sending)("check", code=1).output) is bool(left)


@pytest.mark.long
def test_ids_are_released_once_and_held_emails_can_be_withdrawn(sending: Shop) -> None:
    before = live.fill(sending)
    sending.outbox.restored()
    assert sending.outbox.release([before["due"], before["sent"], 9999]).emails == 1
    assert sending.outbox.release(before["due"]).emails == 0
    with sending.session() as session:
        assert sending.outbox.cancel(tag="orders", session=session) == 1, "one is in doubt"
        session.commit()
    assert sending.status(before["claimed"]) is Status.CANCELLED
    assert "0 emails are released" in runner(sending)("release", "--tag", "orders", code=1).output


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize(
    "again",
    [
        lambda shop: shop.outbox.release(everything=True).emails,
        lambda shop: release_part(shop.runtime, **ALL, after=None, by="ada").changed,
    ],
    ids=["verb", "dashboard"],
)
def test_a_release_tells_what_it_did_although_the_instance_is_locked(
    sending: Shop, again: Callable[[Shop], int]
) -> None:
    live.fill(sending)
    sending.outbox.restored()
    instance = sending.tables.instance
    with vanished(sending, instance) as session:
        released = in_time(lambda: sending.outbox.release(everything=True), session)
        assert released == Released(emails=4)
        assert sending.outbox.health().warnings == ()
    assert sending.rows(instance)[0].held_at, "the next release notes that nothing is held"
    assert again(sending) == 0
    assert sending.rows(instance)[0].held_at is None


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_a_script_learns_that_a_held_email_was_not_released(sending: Shop) -> None:
    first, run = live.fill(sending)["due"], runner(sending)
    sending.outbox.restored()
    with sending.session() as session:
        assert sending.outbox.cancel(id=first, session=session) == 1
        output = run("release", "--all", code=1).output
        assert sending.outbox.release(first).locked == (first,)
        session.rollback()
    assert "3 emails are released" in output
    assert "1 email is unchanged: another transaction holds it; run this again" in output
    assert "1 email is released" in run("release", "--all").output


def test_a_restore_is_repeatable_and_works_before_anything_was_sent(shop: Shop) -> None:
    assert shop.outbox.restored().held == 0
    shop.enqueue()
    assert [shop.outbox.restored().held for _ in range(2)] == [1, 0]
    assert [one.emails for one in shop.outbox.held()] == [1]


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_an_email_that_another_transaction_holds_keeps_everything_back_until_it_is_held(
    sending: Shop,
) -> None:
    email = sending.enqueue()
    drain(sending.runtime)
    email = sending.enqueue()
    with sending.session() as session:
        assert sending.outbox.cancel(id=email.id, session=session) == 1
        assert "holds 1 email: run it again" in runner(sending)("restored", code=1).output
        session.rollback()
    assert drain(sending.runtime) == 0
    assert "1 email is held" in runner(sending)("restored").output
    sending.enqueue()
    assert drain(sending.runtime) == 1
    assert sending.status(email.id) is Status.PENDING


@pytest.mark.parametrize("wanted", [{}, {"tag": "a", "ids": 1}, {"everything": True, "tag": "a"}])
def test_what_to_release_is_said_in_one_way(shop: Shop, wanted: dict[str, object]) -> None:
    with pytest.raises(InvalidMessage, match="either ids"):
        shop.outbox.release(**wanted)  # type: ignore[arg-type]
    assert "give either" in runner(shop)("release", code=2).output


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_claim_reads_no_held_email(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    for _ in range(20):
        shop.enqueue()
    email = shop.tables.email
    names = [name for name in shop.values(1) if name not in ("id", "message_id")]
    columns = [email.c[name] for name in names]
    with shop.engine.begin() as connection:
        some = sa.select(sa.literal("copy"), *columns).join(
            sa.func.generate_series(1, 500).table_valued("n"), sa.true()
        )
        connection.execute(sa.insert(email).from_select(["message_id", *names], some))
    assert shop.outbox.restored().held == 20 + 20 * 500
    with shop.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE outbox_email")
    shop.enqueue()
    due = sa.select(email.c.id).where(
        email.c.priority == 2, email.c.lane == "", email.c.due_at <= sa.func.now()
    )
    with shop.engine.connect() as connection:
        text = str(due.order_by(email.c.due_at, email.c.id).limit(100).compile(
            shop.engine, compile_kwargs={"literal_binds": True}))  # fmt: skip
        plan = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}")
        [found] = plan.scalar_one()
    assert found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"] < 20, found
    assert drain(shop.runtime) == 1


@pytest.mark.long
def test_where_nothing_waited_nobody_is_told_of_held_emails(shop: Shop) -> None:
    shop.outbox.restored()
    assert shop.outbox.health().warnings == ()
    email = shop.enqueue()
    shop.outbox.restored()
    assert "held" in shop.outbox.health().warnings[0]
    shop.outbox.restored()
    assert "held" in shop.outbox.health().warnings[0], "what was held before is held still"
    with shop.session() as session:
        shop.outbox.cancel(id=email.id, session=session)
        session.commit()
    shop.outbox.release(everything=True)
    assert shop.outbox.health().warnings == ()
