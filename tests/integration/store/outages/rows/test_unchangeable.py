"""Emails whose rows take one status not: one row stops no other, and no table costs much time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from outbox import Status
from outbox.store.queries.sweep.sweep_snapshot import read_snapshot
from outbox.store.transitions import claim_apart
from outbox.worker.drain import drain
from tests.integration.store.locks import PATIENCE, swept
from tests.integration.store.outages.rows.test_rows_own_errors import CODES
from tests.integration.store.transitions.lease.test_rescue import judge
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.schema import refusing
from tests.support.shop.shop import LEASE, Shop, Shops, addresses
from tests.support.shop.steps.motion import write

pytestmark = pytest.mark.databases("postgresql", "mariadb")


def never_suppressed(email_id: int) -> str:
    return f"OLD.id = {email_id} AND NEW.status = 'suppressed'"


def test_a_drain_returns_and_has_sent_the_others(
    shop: Shop, shops: Shops, catcher: Catcher
) -> None:
    to = addresses(4)
    ids = [shop.enqueue(address).id for address in to]
    shop.outbox.suppress(to[1], reason="left")
    shop.outbox.suppress(to[2], reason="left")
    runtime = shops.open(MAIL_PORT=catcher.port).runtime
    code = CODES[shop.engine.dialect.name][0]
    with refusing(shop.engine, "outbox_email", never_suppressed(ids[1]), code=code):
        drain(runtime)
        expected = [Status.SENT, Status.PENDING, Status.SUPPRESSED, Status.SENT]
        assert [shop.status(i) for i in ids] == expected
        assert to[1] not in str(catcher.copies())
    assert {row.crashes for row in shop.rows(shop.tables.email)} == {0}


def test_one_that_is_refused_is_charged_a_crash_so_that_it_ends(
    shop: Shop, shops: Shops, catcher: Catcher
) -> None:
    [address] = addresses(1)
    email = shop.enqueue(address)
    shop.outbox.suppress(address, reason="left")
    motion = swept(shops, catcher, OUTBOX_SLOTS=1)
    with refusing(shop.engine, "outbox_email", never_suppressed(email.id)):
        with pytest.raises(DBAPIError):
            motion.work()
        assert shop.status(email.id) is Status.CLAIMED
        shop.rescue()
        assert shop.email_row(email.id).crashes == 1


@pytest.mark.long
def test_a_table_that_fails_is_not_asked_for_each_email(shop: Shop) -> None:
    write(shop, claim_apart.MOST + 9)
    statements: list[str] = []

    def count(*args: object) -> None:
        statements.append(str(args[2]))

    code = CODES[shop.engine.dialect.name][1]
    with refusing(shop.engine, "outbox_email", "NEW.status = 'claimed'", code=code):
        event.listen(shop.engine, "before_cursor_execute", count)
        with pytest.raises(DBAPIError):
            shop.claim(limit=800)
        event.remove(shop.engine, "before_cursor_execute", count)
        updates = [text for text in statements if text.startswith("UPDATE outbox_email")]
        assert len(updates) < 3 * claim_apart.MOST
        assert not shop.database.failing
    assert [claim.emails for claim in shop.claim(limit=800)] == [claim_apart.MOST + 9]


@pytest.mark.long
@pytest.mark.parametrize("count", [3, 1])
def test_where_no_email_of_several_opens_none_is_charged(
    shop: Shop, shops: Shops, catcher: Catcher, count: int
) -> None:
    ids = write(shop, count)
    motion = swept(shops, catcher, OUTBOX_WINDOW=2, OUTBOX_SLOTS=1, OUTBOX_LEASE=1.0)
    code = CODES[shop.engine.dialect.name][1]
    unopened = "NEW.status = 'sending'"
    with ThreadPoolExecutor(1) as pool, refusing(shop.engine, "outbox_email", unopened, code=code):
        error = pool.submit(motion.work).exception(PATIENCE)
    assert isinstance(error, DBAPIError)
    shop.rescue()
    assert {shop.status(i) for i in ids} == {Status.PENDING}
    assert {row.crashes for row in shop.rows(shop.tables.email)} == {int(count == 1)}


def test_a_lease_that_never_started_asks_for_a_rescue_when_it_can_be_judged(shop: Shop) -> None:
    def has_lapsed() -> bool:
        return read_snapshot(shop.database, shop.runtime.lanes, (), limit=1, term=LEASE).lapsed

    email = shop.enqueue()
    shop.claim()
    shop.later(LEASE + 1)
    assert has_lapsed()
    with refusing(shop.engine, "outbox_email", f"OLD.id = {email.id}"):
        assert judge(shop) == 0
        assert not has_lapsed()
        shop.later(LEASE + 1)
        assert has_lapsed()
    assert judge(shop) == 1
    assert not has_lapsed()
