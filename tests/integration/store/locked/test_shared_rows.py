"""A host that vanished with a row that many need: nobody waits long for it, and no promise breaks.

A connection that holds the row in an open transaction is that host.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.domain.delivery import reach
from outbox.domain.delivery.breaker_timing import OPEN_FIRST, Cause
from outbox.domain.scheduling.token_bucket import Rate
from outbox.store.connection import shared_rows
from outbox.store.connection.database import Database
from outbox.store.connection.shared_rows import LockedElsewhere
from outbox.store.control import circuit_breaker, forgotten_servers
from outbox.store.control.blame import suspicion
from outbox.store.control.connection_caps import take_server
from outbox.store.control.counter import CRASHING, UNKNOWN, put_if_free
from outbox.store.control.rate_limits import correct_buckets, seconds_until_open, take
from outbox.store.queries.crashing import prepare_mark
from outbox.store.transitions.rescue import RESCUED
from outbox.worker.sweep import NOTE_HALTED
from tests.integration.store.leases import in_flight
from tests.integration.store.locks import OURS, ROUTES, SENT, UNTOUCHED, in_time, vanished
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import Motion, halted, server, standing, write

pytestmark = pytest.mark.databases("postgresql", "mariadb")

PROBER = uuid4()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the process try a row again with the next sweep; see `test_avoided_rows`."""
    monkeypatch.setattr(shared_rows, "AVOIDED", 0.0)
    monkeypatch.setattr(reach, "AVOID", 0.0)


def two_servers(shops: Shops, catcher: Catcher, **limit: object) -> Motion:
    """Open a shop whose news go over A, which has a limit, and its other emails over B."""
    servers = [server("a", catcher.port, **limit), server("b", catcher.port)]
    return Motion(shop=shops.open(OUTBOX_SERVERS=servers, OUTBOX_ROUTES=ROUTES))


def write_both(motion: Motion) -> None:
    write(motion.shop, 5, tag="news")
    write(motion.shop, 5)


@pytest.mark.long
def test_where_a_capped_server_is_locked_the_others_emails_go_out(
    shops: Shops, catcher: Catcher
) -> None:
    motion = two_servers(shops, catcher, connections=1)
    shop = motion.shop
    write_both(motion)
    motion.beat()
    assert standing(shop) == {SENT: 10}
    with vanished(shop, shop.tables.server, "a") as session:
        for sent in (15, 20):
            write_both(motion)
            in_time(motion.beat, session)
            assert standing(shop) == {SENT: sent, UNTOUCHED: sent - 10}
        assert shop.count(shop.tables.lease) == 0
    motion.until_empty()
    assert standing(shop) == {SENT: 30}


@pytest.mark.long
def test_a_server_that_is_locked_counts_as_full_whatever_its_cap(shop: Shop) -> None:
    shop.enqueue()
    token, caps = shop.started().token, {"a": 9, "b": 1, "c": 1}
    for name in caps:
        assert take_server(shop.database, uuid4(), [name], caps) is None  # it makes the row
    with vanished(shop, shop.tables.server, "a", "b") as session:

        def taken(*names: str) -> str | None:
            found: str | None = in_time(
                lambda: take_server(shop.database, token, names, caps), session
            )
            return found

        assert taken("a", "b") is None
        assert taken("a", "b", "c") == "c"
        assert taken("a", "free") == "free"
        assert taken("b") is None
        assert shop.database.read(lambda c: in_flight(c, shop.database)) == {"free": 1}
    assert take_server(shop.database, token, ["a", "b"], caps) == "a"


@pytest.mark.long
def test_what_a_process_waited_for_in_vain_it_tries_once_until_it_gets_it(shop: Shop) -> None:
    """So a row that is locked for hours costs each batch a moment, and not two seconds."""
    shop.enqueue()
    token, caps = shop.started().token, {"a": 1}
    take_server(shop.database, uuid4(), ["a"], caps)
    tried: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        tried.extend(["lock"] if "SKIP LOCKED" in statement else [])

    def taken() -> str | None:
        tried.clear()
        return take_server(shop.database, token, ["a"], caps)

    sa.event.listen(shop.engine, "before_cursor_execute", note)
    with vanished(shop, shop.tables.server, "a") as session:
        assert in_time(taken, session) is None
        assert len(tried) > 1
        assert in_time(taken, session) is None
        assert len(tried) == 1
    assert taken() == "a"
    with vanished(shop, shop.tables.server, "a") as session:
        assert in_time(taken, session) is None
        assert len(tried) > 1, "another host vanished, or only paused"


@pytest.mark.long
def test_where_a_rate_is_locked_the_others_emails_go_out(shops: Shops, catcher: Catcher) -> None:
    motion = two_servers(shops, catcher, rate="1000/s")
    shop = motion.shop
    write_both(motion)
    motion.beat()
    assert standing(shop) == {SENT: 10}
    [bucket] = shop.rows(shop.tables.bucket)
    with vanished(shop, shop.tables.bucket, bucket.name) as session:
        for sent in (15, 20):
            write_both(motion)
            in_time(motion.beat, session)
            assert standing(shop) == {SENT: sent, UNTOUCHED: sent - 10}
        assert shop.count(shop.tables.lease) == 0
    motion.until_empty()
    assert standing(shop) == {SENT: 30}


def test_of_a_rate_that_is_locked_no_permit_is_to_be_had(shop: Shop) -> None:
    rate = Rate(1, 3600)
    take(shop.database, {"locked": (rate, 1)})
    take(shop.database, {"free": (rate, 1)})
    shop.later(3600)
    both = {"locked": (rate, 1), "free": (rate, 1)}
    with vanished(shop, shop.tables.bucket, "locked") as session:
        assert in_time(lambda: take(shop.database, both), session) == float("inf")
        assert in_time(lambda: take(shop.database, {}, debts=both), session) == float("inf")
        in_time(lambda: correct_buckets(shop.database, {"locked": 3600.0}), session)
        assert seconds_until_open(shop.database, both) == {"locked": 0, "free": 0}
    assert take(shop.database, both) == 0.0
    assert take(shop.database, both) > 0.0


@pytest.mark.long
def test_a_host_that_vanished_while_it_counted_keeps_no_lease_from_its_rescue(shop: Shop) -> None:
    """It holds the counters, and the mark of an email that is with lost workers again and again."""
    email = shop.enqueue()
    for _ in range(2):
        shop.lose(email.id)
    shop.sending(email.id)
    with vanished(shop, shop.tables.counter) as session:
        assert in_time(shop.rescue, session) == 1
        assert (shop.counter(RESCUED), shop.counter(UNKNOWN)) == (3, 3)
    assert shop.status(email.id) is Status.UNKNOWN


def test_nobody_waits_for_the_first_mark_of_a_host_that_vanished(shop: Shop) -> None:
    """The mark is committed before the rescue that leaves it."""
    email = shop.enqueue()
    shop.lose(email.id)
    shop.sending(email.id)
    with shop.session() as session:
        rescuing = session.connection(execution_options=OURS)
        token = shop.email_row(email.id).token
        prepare_mark(shop.database, [token])
        put_if_free(rescuing, shop.database, CRASHING, email.id)
        assert in_time(shop.rescue, session) == 1


def halt(shop: Shop, name: str) -> None:
    """Open this server's breaker, and let the time of its probe come."""
    circuit_breaker.trip(shop.database, name, cause=Cause.SESSION, reason="refused")
    shop.later(OPEN_FIRST + 0.1)


@pytest.mark.long
def test_where_the_breaker_of_a_halted_server_is_locked_the_others_emails_go_out(
    shops: Shops, catcher: Catcher
) -> None:
    """Each sweep wants to probe it, and notes that it is configured."""
    motion = two_servers(shops, catcher)
    shop = motion.shop
    halt(shop, "a")
    with vanished(shop, shop.tables.breaker, "a") as session:
        for sent in (5, 10):
            write_both(motion)
            in_time(motion.beat, session)
            assert standing(shop) == {SENT: sent, UNTOUCHED: sent}
            shop.runtime.seldom.forget(NOTE_HALTED)
    motion.until_empty()
    assert standing(shop) == {SENT: 20}
    assert halted(shop) == set()


@pytest.mark.long
def test_a_batch_whose_server_fails_does_not_wait_for_its_breaker(
    shops: Shops, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    servers = [server("a", 1), server("b", catcher.port)]  # nothing listens at port 1
    shop = shops.open(OUTBOX_SERVERS=servers, OUTBOX_ROUTES=ROUTES)
    motion = Motion(shop=shop)
    suspicion.suspect(shop.database, "a", email_id=0, reason="451")
    with vanished(shop, shop.tables.breaker, "a") as session:
        for sent in (5, 10):
            write_both(motion)
            in_time(motion.beat, session)
            assert standing(shop) == {SENT: sent, UNTOUCHED: sent}
    assert (
        caplog.text.count("another transaction has locked the row 'a' of outbox_breaker for 2 s")
        == 1
    )
    assert "halted" not in caplog.text
    motion.beat()
    (row,) = shop.rows(shop.tables.breaker)
    assert row.state == "open"
    assert standing(shop) == {SENT: 10, UNTOUCHED: 10}


CHANGES: dict[str, Callable[[Database], object]] = {
    "trip": lambda db: circuit_breaker.trip(db, "a", cause=Cause.SESSION, reason="refused"),
    "close": lambda db: circuit_breaker.close(db, "a"),
    "suspect": lambda db: suspicion.suspect(db, "a", email_id=1, reason="451"),
    "silent": lambda db: suspicion.silent(db, "a", email_id=1, reason="silent"),
    "clear": lambda db: suspicion.clear(db, "a"),
}
PASSES: dict[str, Callable[[Database], object]] = {
    "take_probe": lambda db: circuit_breaker.take_probe(db, "a"),
    "note_prober": lambda db: circuit_breaker.note_prober(db, "a", PROBER),
    "give_back": lambda db: db.run(lambda c: circuit_breaker.give_back_probe(c, db, PROBER)),
    "forget_prober": lambda db: db.run(lambda c: circuit_breaker.forget_prober(c, db, PROBER)),
    "hurry": lambda db: circuit_breaker.hurry(db, ["a"]),
    "note_configured": lambda db: forgotten_servers.note_configured(db, ["a"]),
    "purge_servers": lambda db: forgotten_servers.purge_servers(db, []),
}


@pytest.mark.long
@pytest.mark.parametrize("what", [*CHANGES, *PASSES])
def test_nobody_waits_long_for_a_breaker_and_nothing_is_changed(shop: Shop, what: str) -> None:
    circuit_breaker.trip(shop.database, "a", cause=Cause.SESSION, reason="refused", alert=True)
    if what != "note_prober":
        circuit_breaker.note_prober(shop.database, "a", PROBER)
    if what != "hurry":  # its time has not come yet
        shop.later(forgotten_servers.KEPT + 3600)
    before = shop.rows(shop.tables.breaker)
    with vanished(shop, shop.tables.breaker, "a") as session:
        if what in CHANGES:
            with pytest.raises(LockedElsewhere):
                in_time(lambda: CHANGES[what](shop.database), session)
        else:
            in_time(lambda: PASSES[what](shop.database), session)
    assert shop.rows(shop.tables.breaker) == before
    (CHANGES | PASSES)[what](shop.database)
    if what not in ("suspect", "silent", "clear"):  # those are of a server that is not halted
        assert shop.rows(shop.tables.breaker) != before


@pytest.mark.long
def test_a_breaker_whose_server_s_row_is_locked_stays_open_until_the_next_probe(shop: Shop) -> None:
    """Or it would close without its ramp."""
    halt(shop, "a")
    circuit_breaker.close(shop.database, "a")
    halt(shop, "a")
    with vanished(shop, shop.tables.server, "a") as session:
        with pytest.raises(LockedElsewhere):
            in_time(lambda: circuit_breaker.close(shop.database, "a"), session)
        assert halted(shop) == {"a"}
    circuit_breaker.close(shop.database, "a")
    assert halted(shop) == set()
