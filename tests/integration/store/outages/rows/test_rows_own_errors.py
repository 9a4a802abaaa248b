"""One email's row answers with an error of the app's own: it stops no other email.

A trigger may raise any code, and row security has that of a missing right. No code tells such an
error from an outage.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import DBAPIError

from outbox import Status
from outbox.store.control import passed_over
from outbox.store.records import Claim
from outbox.store.transitions import expire
from outbox.store.transitions.window import finish
from outbox.worker.batch.batch_results import Results
from outbox.worker.process import retry_writes, unrecorded
from outbox.worker.sweep import sweep
from tests.integration.store.locks import PATIENCE, swept
from tests.integration.store.purge.test_purge_run import DAY, purged, withdrawn
from tests.integration.store.transitions.lease.test_rescue import judge
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.schema import refusing
from tests.support.shop.shop import LEASE, WORKER, Shop, Shops, addresses, sent
from tests.support.shop.steps.motion import Motion
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.each_database, pytest.mark.matrix]

SENT, SENDING, PENDING, CLAIMED = Status.SENT, Status.SENDING, Status.PENDING, Status.CLAIMED

CODES = {
    "sqlite": ["json('{')", "json_extract('{}', 'x')", "abs(-9223372036854775807 - 1)"],
    "postgresql": ["UE001", "42501", "57014"],
    "mariadb": ["31001", "1142", "1969"],
}


@pytest.fixture(
    params=[
        ("outbox_attempt", "INSERT", "NEW.email_id"),
        ("outbox_recipient", "UPDATE", "OLD.email_id"),
    ],
    ids=["attempt", "recipient"],
)
def table(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    found: tuple[str, str, str] = request.param
    return found


@pytest.fixture(params=["refused", "its own"])
def how(request: pytest.FixtureRequest, shop: Shop) -> str:
    return "" if request.param == "refused" else CODES[shop.engine.dialect.name][0]


@pytest.fixture(params=[0, 1, 2], ids=["its own", "no right", "too long"])
def code(request: pytest.FixtureRequest, shop: Shop) -> str:
    return CODES[shop.engine.dialect.name][int(request.param)]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unrecorded, "FAILING_WAIT", unrecorded.LONGEST_WAIT)


def never_sent(email_id: int) -> str:
    return f"OLD.id = {email_id} AND NEW.status = 'sent'"


def work(motion: Motion) -> None:
    with suppress(DBAPIError):
        motion.work()


@pytest.mark.parametrize("place", [0, 1])
def test_the_results_beside_it_are_recorded_and_the_batch_ends(
    shop: Shop, shops: Shops, catcher: Catcher, code: str, place: int
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(6)]
    motion = swept(shops, catcher, OUTBOX_WINDOW=2, OUTBOX_SLOTS=1)
    expected = [SENT, SENT, PENDING, PENDING, PENDING, PENDING]
    expected[place] = SENDING
    with ThreadPoolExecutor(1) as pool:
        with refusing(shop.engine, "outbox_email", never_sent(ids[place]), code=code):
            pool.submit(work, motion).result(PATIENCE)
            assert [shop.status(i) for i in ids] == expected
            assert {row.crashes for row in shop.rows(shop.tables.email)} == {0}
        expected[place] = SENT  # the result was kept, and the trigger is gone
        wait_until(lambda: [shop.status(i) for i in ids] == expected, PATIENCE, "the last result")
    assert set(catcher.copies().values()) == {1}


def test_an_attempt_or_a_recipient_whose_row_fails_keeps_no_other_result(
    shop: Shop, shops: Shops, catcher: Catcher, code: str, table: tuple[str, str, str]
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(2)]
    ids.insert(1, shop.enqueue("ada@example.com", "bob@example.com").id)
    motion = swept(shops, catcher, OUTBOX_WINDOW=3, OUTBOX_SLOTS=1)
    name, event, column = table
    with ThreadPoolExecutor(1) as pool:
        with refusing(shop.engine, name, f"{column} = {ids[1]}", event=event, code=code):
            pool.submit(work, motion).result(PATIENCE)
            assert [shop.status(i) for i in ids] == [SENT, SENDING, SENT]
        wait_until(lambda: shop.status(ids[1]) is SENT, PATIENCE, "the last result")
    assert set(shop.recipients(ids[1]).values()) == {"sent"}
    assert shop.count(shop.tables.attempt) == len(ids)


@pytest.mark.long
def test_a_lone_result_whose_row_fails_ends_its_batch_when_the_lease_was_renewed(
    shop: Shop, shops: Shops, catcher: Catcher, code: str
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(2)]
    motion = swept(shops, catcher, OUTBOX_WINDOW=1, OUTBOX_SLOTS=1, OUTBOX_LEASE=1.0)
    with ThreadPoolExecutor(1) as pool:
        with refusing(shop.engine, "outbox_email", never_sent(ids[0]), code=code):
            pool.submit(work, motion).result(PATIENCE)
            assert [shop.status(i) for i in ids] == [SENDING, PENDING]
        wait_until(lambda: shop.status(ids[0]) is SENT, PATIENCE, "the last result")


def test_no_result_is_given_up_while_all_of_them_fail(
    shop: Shop,
    shops: Shops,
    catcher: Catcher,
    code: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry_writes, "TOLD_EVERY", 0.0)  # so that each try is seen
    ids = [shop.enqueue(address).id for address in addresses(2)]
    motion = swept(shops, catcher, OUTBOX_WINDOW=2, OUTBOX_SLOTS=1)
    with ThreadPoolExecutor(1) as pool:
        with refusing(shop.engine, "outbox_email", "NEW.status = 'sent'", code=code):
            batch = pool.submit(work, motion)
            wait_until(lambda: caplog.text.count("is asked again") > 2, PATIENCE, "several tries")
            assert not batch.done()
        batch.result(PATIENCE)
    assert [shop.status(i) for i in ids] == [SENT, SENT]
    assert set(catcher.copies().values()) == {1}


def test_its_batch_lives_while_each_result_is_tried_alone(shop: Shop, code: str) -> None:
    ids = [shop.enqueue(address).id for address in addresses(8)]
    made, lives = shop.started(), list[bool]()
    results = Results(
        shop.runtime, made.token, progress=lambda: lives.append(True), is_told=lambda: True
    )
    assert results.record_and_open(ids[:4]) == {*ids[:4]}
    for email_id in ids[:4]:
        results.add(sent(email_id))
    not_open = f"OLD.id = {ids[5]} AND NEW.status = 'sending'"
    with refusing(shop.engine, "outbox_email", not_open, code=code):
        assert results.record_and_open(ids[4:]) == {*ids[4:]} - {ids[5]}
    assert len(lives) >= len(ids), "one sign of life for each write and each opening"


@pytest.mark.parametrize("gives_back", [True, False], ids=["a good end", "an error"])
def test_results_behind_a_batch_are_recorded_beside_it_and_it_is_kept(
    shop: Shop, code: str, gives_back: bool
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(5)]
    made = shop.started()
    shop.open(made.token, *ids[:3])
    rest = [PENDING if gives_back else CLAIMED] * 2
    kept = shop.runtime.unrecorded
    with refusing(shop.engine, "outbox_email", never_sent(ids[1]), code=code):
        kept.keep(made.token, [sent(i) for i in ids[:3]], gives_back=gives_back)
        expected = [SENT, SENDING, SENT, *rest]
        wait_until(lambda: [shop.status(i) for i in ids] == expected, PATIENCE, "the others")
    assert kept.wait(PATIENCE)
    assert [shop.status(i) for i in ids] == [SENT, SENT, SENT, *rest]


def test_the_others_are_claimed_and_it_is_tried_again_later(
    shop: Shop, how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(4)]
    with refusing(shop.engine, "outbox_email", f"OLD.id IN ({ids[0]}, {ids[2]})", code=how):
        made: list[Claim] = []
        assert sweep(shop.runtime, made.append) == 2
        assert [shop.status(i) for i in ids] == [PENDING, CLAIMED, PENDING, CLAIMED]
        assert f"email {ids[0]} first" in caplog.text
        caplog.clear()
        assert sweep(shop.runtime, made.append) == 0
        assert not caplog.text, "it is passed over for a while"
        monkeypatch.setattr(passed_over, "RETRY_AFTER", -1.0)
        shop.database.failing.clear()
        assert sweep(shop.runtime, made.append) == 0
        assert f"email {ids[0]} first" in caplog.text
    shop.database.failing.clear()
    assert sweep(shop.runtime, made.append) == 2
    assert len({claim.token for claim in made}) == len(made)
    assert [shop.status(i) for i in ids] == [CLAIMED] * 4


def test_a_batch_full_of_them_keeps_nothing_behind_it(shop: Shop, how: str) -> None:
    ids = [shop.enqueue(address).id for address in addresses(9)]
    with refusing(shop.engine, "outbox_email", f"OLD.id <= {ids[6]}", code=how):
        made = shop.claim(limit=3)
    assert [shop.status(i) for i in ids] == [PENDING] * 7 + [CLAIMED] * 2
    assert [claim.emails for claim in made] == [2]


def test_the_others_of_its_window_are_opened_and_sent(
    shop: Shop, shops: Shops, catcher: Catcher, how: str
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(5)]
    motion = swept(shops, catcher, OUTBOX_WINDOW=3, OUTBOX_SLOTS=1)
    never_open = f"OLD.id = {ids[1]} AND NEW.status = 'sending'"
    with ThreadPoolExecutor(1) as pool, refusing(shop.engine, "outbox_email", never_open, code=how):
        pool.submit(work, motion).result(PATIENCE)
        assert [shop.status(i) for i in ids] == [SENT, PENDING, SENT, SENT, SENT]
    assert {row.crashes for row in shop.rows(shop.tables.email)} == {0}
    assert addresses(2)[1] not in str(catcher.copies())


def test_the_others_are_given_back(shop: Shop, how: str) -> None:
    ids = [shop.enqueue(address).id for address in addresses(4)]
    made = shop.started()
    not_back = f"OLD.id = {ids[1]} AND NEW.status = 'pending'"
    with refusing(shop.engine, "outbox_email", not_back, code=how):
        finish(shop.database, made.token, [], worker=WORKER)
        assert [shop.status(i) for i in ids] == [PENDING, CLAIMED, PENDING, PENDING]
        shop.rescue()
        assert shop.status(ids[1]) is CLAIMED
    shop.rescue()
    assert shop.status(ids[1]) is PENDING
    assert {row.crashes for row in shop.rows(shop.tables.email)} == {0}


def test_a_lease_that_never_started_is_judged_again_one_lease_later(
    shop: Shop, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    email = shop.enqueue()
    shop.claim()
    (before,) = shop.rows(shop.tables.lease)
    shop.later(LEASE + 1)
    with refusing(shop.engine, "outbox_email", f"OLD.id = {email.id}", code=how):
        assert judge(shop) == 0
        assert judge(shop) == 0
        assert caplog.text.count("could not be rescued") == 1
        (after,) = shop.rows(shop.tables.lease)
        assert after.expires_at == before.expires_at, "it takes no slot"
    shop.later(LEASE + 1)
    assert judge(shop) == 1
    assert shop.status(email.id) is PENDING


def test_the_others_are_rescued_of_its_lease_and_of_another(shop: Shop, code: str) -> None:
    ids = [shop.enqueue(address).id for address in addresses(5)]
    made = shop.started()
    shop.open(made.token, *ids[:3])
    more = [shop.enqueue(address).id for address in addresses(2)]
    shop.started()
    with refusing(shop.engine, "outbox_email", f"OLD.id = {ids[1]}", code=code):
        assert shop.rescue() == 1
        assert [shop.status(i) for i in ids] == [PENDING, SENDING, PENDING, PENDING, PENDING]
        assert [shop.status(i) for i in more] == [PENDING] * 2
    assert shop.rescue() == 1
    assert shop.email_row(ids[1]).unknown_count == 1


def test_a_lease_whose_own_row_fails_keeps_no_other(
    shop: Shop, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    leases = [(shop.enqueue(), shop.started()) for _ in range(3)]
    first, *others = sorted(leases, key=lambda pair: str(pair[1].token))
    with shop.engine.begin() as connection:
        lease = shop.tables.lease
        mark = lease.update().where(lease.c.token == first[1].token).values(emails=9)
        connection.execute(mark)
    with refusing(shop.engine, "outbox_lease", "OLD.emails = 9", event="DELETE", code=how):
        assert shop.rescue() == 2
        assert {shop.status(email.id) for email, _ in others} == {PENDING}
        assert "a lease could not be rescued" in caplog.text
    assert shop.rescue() == 1


def test_the_others_expire(shop: Shop, code: str) -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    ids = [shop.enqueue(address, expires_at=end).id for address in addresses(4)]
    shop.later(2 * 3600)
    with refusing(shop.engine, "outbox_email", f"OLD.id = {ids[2]}", code=code):
        assert expire.expire(shop.database) == 3
    assert expire.expire(shop.database) == 1


def test_the_others_are_purged(shop: Shop, code: str) -> None:
    withdrawn(shop, 4)
    ids = [row.id for row in shop.rows(shop.tables.email)]
    shop.later(DAY + 1)
    with refusing(shop.engine, "outbox_email", f"OLD.id = {ids[2]}", event="DELETE", code=code):
        assert purged(shop) == 3
    assert [row.id for row in shop.rows(shop.tables.email)] == [ids[2]]
