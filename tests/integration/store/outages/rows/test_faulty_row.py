"""A row that the database refuses to change: it stays behind alone, and every sweep goes on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from outbox import Email, Priority, Status
from outbox.store.transitions import expire
from outbox.store.transitions.rescue import Rescued, rescue
from outbox.worker.sweep import sweep
from tests.integration.store.transitions.lease.test_rescue import judge
from tests.support.shop.schema import refusing
from tests.support.shop.shop import LEASE, Shop

pytestmark = pytest.mark.each_database

MANY = 9


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def statuses(shop: Shop, emails: list[Email]) -> set[Status]:
    return {shop.status(email.id) for email in emails}


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("place", [0, 4, MANY - 1])
@pytest.mark.parametrize("in_doubt", [False, True], ids=["claimed", "in doubt"])
def test_a_faulty_row_keeps_no_other_of_its_claim_nor_of_another(
    shop: Shop, caplog: pytest.LogCaptureFixture, place: int, in_doubt: bool
) -> None:
    emails = [shop.enqueue() for _ in range(MANY)]
    made = shop.started()
    if in_doubt:
        shop.open(made.token, *(email.id for email in emails))
    others = [shop.enqueue() for _ in range(2)]
    shop.started()
    faulty = emails.pop(place)
    with refusing(shop.engine, "outbox_email", f"OLD.id = {faulty.id}"):
        assert shop.rescue() == 1
        assert statuses(shop, emails + others) == {Status.PENDING}
        assert shop.email_row(faulty.id).token == made.token
        assert [row.token for row in shop.rows(shop.tables.lease)] == [made.token]
        (line,) = told(caplog)
        assert f"email {faulty.id} first" in line
        assert judge(shop) == 0
        assert len(told(caplog)) == 1, "it is judged again one lease later"
    shop.later(LEASE + 1)
    assert judge(shop) == 1
    assert shop.status(faulty.id) is Status.PENDING
    assert shop.count(shop.tables.lease) == 0
    assert {row.crashes for row in shop.rows(shop.tables.email)} == {1}
    assert shop.count(shop.tables.attempt) == (MANY if in_doubt else 0)


@pytest.mark.long
def test_each_email_is_counted_by_the_rescue_that_judged_it(shop: Shop) -> None:
    """Work that is refused is repeated in halves, and counts no email twice."""
    emails = [shop.enqueue() for _ in range(MANY)]
    made = shop.started()
    shop.open(made.token, *(email.id for email in emails[:5]))

    def rescued() -> Rescued:
        shop.later(LEASE + 1)
        return rescue(shop.database, shop.runtime.settings, random=lambda: 0.5)

    with refusing(shop.engine, "outbox_email", f"OLD.id = {emails[2].id}"):
        assert rescued() == Rescued(leases=0, emails=0, in_doubt=0)  # it notes what ran out
        assert rescued() == Rescued(leases=0, emails=8, in_doubt=4)
    assert rescued() == Rescued(leases=1, emails=1, in_doubt=1)


def test_a_faulty_row_that_has_expired_keeps_no_other_from_its_end(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    emails = [shop.enqueue(expires_at=end - timedelta(seconds=n)) for n in range(MANY)]
    faulty = emails.pop(3)
    shop.later(2 * 3600)
    with refusing(shop.engine, "outbox_email", f"OLD.id = {faulty.id}"):
        assert expire.expire(shop.database) == MANY - 1
        assert statuses(shop, emails) == {Status.EXPIRED}
        assert shop.status(faulty.id) is Status.PENDING
        assert len(told(caplog)) == 1
    assert expire.expire(shop.database) == 1


@pytest.mark.parametrize("table", ["outbox_lease", "outbox_email"])
def test_a_sweep_that_can_neither_rescue_nor_expire_claims(
    shop: Shop, caplog: pytest.LogCaptureFixture, table: str
) -> None:
    shop.enqueue()
    shop.started()
    shop.enqueue(priority=Priority.BULK, expires_at=datetime.now(UTC) + timedelta(seconds=10))
    shop.later(LEASE + 1)
    due = shop.enqueue()
    condition = "1 = 1" if table == "outbox_lease" else "NEW.status <> 'claimed'"
    with refusing(shop.engine, table, condition):
        assert sweep(shop.runtime, lambda _: None) >= 1
    assert shop.status(due.id) is Status.CLAIMED
    (line,) = told(caplog)
    assert "Traceback" not in caplog.text
    assert "could not rescue" in line or "expired" in line


@pytest.mark.databases("postgresql")
def test_a_rescue_that_runs_into_a_lock_timeout_keeps_no_sweep_from_its_claims(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    with shop.engine.begin() as connection:
        name = shop.engine.url.database
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET lock_timeout = 50')
    shop.engine.dispose()
    shop.enqueue()
    shop.claim()
    shop.later(LEASE + 1)
    due = shop.enqueue()
    with shop.engine.begin() as held:
        held.exec_driver_sql("LOCK TABLE outbox_counter IN EXCLUSIVE MODE")
        assert sweep(shop.runtime, lambda _: None) == 1
    assert shop.status(due.id) is Status.CLAIMED
    assert told(caplog) == ["outbox: a sweep could not rescue (LockNotAvailable 55P03)"]
    assert "kept a write waiting" not in caplog.text  # it was not tried again
