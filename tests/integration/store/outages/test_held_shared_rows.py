"""A host that vanished with a row that many need: nobody waits long for it, and no promise breaks.

A connection that holds the row in an open transaction is that host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox import Status
from outbox.domain.scheduling.token_bucket import Rate
from outbox.store.control.connection_caps import in_flight, take_server
from outbox.store.control.counter import CRASHING, UNKNOWN, put_if_free
from outbox.store.control.rate_limits import seconds_until_open, set_right, take
from outbox.store.queries.crashing import prepare_mark
from outbox.store.transitions.rescue import RESCUED
from tests.integration.store.outages.locks import in_time
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.motion import Motion, server, standing, write
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("postgresql", "mariadb")

SENT, UNTOUCHED = ("sent", 1, 0, 0), ("pending", 0, 0, 0)

OURS = {"isolation_level": "READ COMMITTED"}  # or MariaDB would lock the gaps beside the rows, too


@contextmanager
def vanished(shop: Shop, table: sa.Table, *names: str) -> Iterator[Session]:
    """Hold the rows of these names, or else all rows of the table."""
    (key,) = table.primary_key
    with shop.session() as session:
        session.connection(execution_options=OURS)
        for name in names:
            row = sa.select(key).where(key == name).with_for_update()
            assert session.execute(row).scalar_one() == name
        if not names:
            assert session.execute(sa.select(table).with_for_update()).all()
        yield session
        session.rollback()


def two_servers(shops: Shops, catcher: Catcher, **limit: object) -> Motion:
    """Open a shop whose news go over A, which has a limit, and its other emails over B."""
    servers = [server("a", catcher.port, **limit), server("b", catcher.port)]
    routes = [
        {"name": "news", "tag": "news", "servers": ["a"]},
        {"name": "rest", "servers": ["b"]},
    ]
    return Motion(shop=shops.open(OUTBOX_SERVERS=servers, OUTBOX_ROUTES=routes))


def write_both(motion: Motion) -> None:
    write(motion.shop, 5, tag="news")
    write(motion.shop, 5)


def test_where_a_capped_server_is_held_the_others_emails_go_out(
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


def test_a_server_that_is_held_counts_as_full_whatever_its_cap(shop: Shop) -> None:
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


def test_what_a_process_waited_for_in_vain_it_tries_once_until_it_gets_it(shop: Shop) -> None:
    """So a row that is held for hours costs each batch a moment, and not two seconds."""
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


@pytest.mark.databases("mariadb")  # PostgreSQL has it in one statement
def test_where_a_rate_is_held_the_others_emails_go_out(shops: Shops, catcher: Catcher) -> None:
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


@pytest.mark.databases("mariadb")
def test_of_a_rate_that_is_held_no_permit_is_to_be_had(shop: Shop) -> None:
    rate = Rate(1, 3600)
    take(shop.database, {"held": (rate, 1)})
    take(shop.database, {"free": (rate, 1)})
    shop.later(3600)
    both = {"held": (rate, 1), "free": (rate, 1)}
    with vanished(shop, shop.tables.bucket, "held") as session:
        assert in_time(lambda: take(shop.database, both), session) == float("inf")
        assert in_time(lambda: take(shop.database, {}, debts=both), session) == float("inf")
        in_time(lambda: set_right(shop.database, ["held"]), session)
        assert seconds_until_open(shop.database, both) == {"held": 0, "free": 0}
    assert take(shop.database, both) == 0.0
    assert take(shop.database, both) > 0.0


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
        token = shop.mail(email.id).token
        prepare_mark(shop.database, [token])
        put_if_free(rescuing, shop.database, CRASHING, email.id)
        assert in_time(shop.rescue, session) == 1
