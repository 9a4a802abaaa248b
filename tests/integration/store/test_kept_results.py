"""A result whose row alone fails is known as long as its process lives: no rescue takes it over."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from outbox import Status
from outbox.worker.process import unrecorded
from tests.integration.store.locks import PATIENCE
from tests.integration.store.transitions.lease.test_rescue import judge
from tests.support.shop.schema import refusing
from tests.support.shop.shop import LEASE, Shop, Shops, addresses, sent
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql", "mariadb")

CODES = {"postgresql": "UE001", "mariadb": "31001"}
SENT, SENDING, PENDING = Status.SENT, Status.SENDING, Status.PENDING


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unrecorded, "FAILING_WAIT", unrecorded.FIRST_WAIT)
    monkeypatch.setattr(unrecorded, "TOLD_EVERY", 0.0)  # so that each try is seen


@pytest.mark.parametrize("gives_back", [True, False], ids=["a good end", "an error"])
def test_the_rescue_waits_while_a_row_takes_no_result(
    shop: Shop, gives_back: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(2)]
    made = shop.started()
    shop.open(made.token, *ids)
    kept, tries, code = shop.runtime.unrecorded, 0, CODES[shop.engine.dialect.name]
    never = f"OLD.id = {ids[0]} AND NEW.status = 'sent'"

    def is_tried_twice() -> bool:  # so one whole try lies behind the rescue
        return caplog.text.count("not recorded yet") > tries + 1

    with refusing(shop.engine, "outbox_email", never, code=code):
        kept.keep(made.token, [sent(i) for i in ids], gives_back=gives_back)
        for _ in range(3):
            tries = caplog.text.count("not recorded yet")
            wait_until(is_tried_twice, PATIENCE, "a whole try")
            shop.later(LEASE + 1)
            judge(shop)
            assert [shop.status(i) for i in ids] == [SENDING, SENT]
    assert kept.wait(PATIENCE)
    assert [shop.status(i) for i in ids] == [SENT, SENT]
    assert shop.email_row(ids[0]).unknown_count == 0
    assert shop.count(shop.tables.attempt) == len(ids)


def test_many_batches_that_wait_for_the_database_say_so_once_a_minute(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrecorded, "TOLD_EVERY", 60.0)
    kept, code, tries = shop.runtime.unrecorded, CODES[shop.engine.dialect.name], list[object]()
    event.listen(shop.engine, "handle_error", tries.append)
    made = []
    for address in addresses(3):
        email = shop.enqueue(address)
        made.append((shop.sending(email.id).token, email.id))
    with refusing(shop.engine, "outbox_email", "NEW.status = 'sent'", code=code):
        for token, email_id in made:
            kept.keep(token, [sent(email_id)])
        wait_until(lambda: len(tries) > 10, PATIENCE, "several tries of each")
    assert kept.wait(PATIENCE)
    assert shop.statuses() == ["sent"] * 3
    assert caplog.text.count("not recorded yet") == 1


def test_with_a_short_lease_the_rescue_is_put_off_more_often(
    shops: Shops, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unrecorded, "FAILING_WAIT", 3600.0)
    shop = shops.open(OUTBOX_LEASE=1.0)
    email = shop.enqueue()
    made, code = shop.sending(email.id), CODES[shop.engine.dialect.name]
    never = f"OLD.id = {email.id} AND NEW.status = 'sent'"
    with refusing(shop.engine, "outbox_email", never, code=code):
        shop.runtime.unrecorded.keep(made.token, [sent(email.id)])
        wait_until(lambda: caplog.text.count("not recorded yet") > 2, PATIENCE, "further tries")
    assert shop.runtime.unrecorded.wait(PATIENCE)
    assert shop.status(email.id) is SENT


def test_the_rest_is_given_back_after_an_error_that_may_be_an_outage(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(2)]
    made = shop.started()
    shop.open(made.token, ids[0])
    kept, code = shop.runtime.unrecorded, CODES[shop.engine.dialect.name]

    def is_only_the_lease_left() -> bool:
        return shop.status(ids[0]) is SENT and caplog.text.count("results are not recorded") > 1

    with refusing(shop.engine, "outbox_lease", "OLD.emails > 0", event="DELETE", code=code):
        kept.keep(made.token, [sent(ids[0])])
        wait_until(is_only_the_lease_left, PATIENCE, "a try without results")
    assert kept.wait(PATIENCE)
    assert [shop.status(i) for i in ids] == [SENT, PENDING]
    assert shop.count(shop.tables.lease) == 0


def test_a_process_tells_once_a_minute_that_leases_are_not_renewed(shop: Shop) -> None:
    tells = shop.runtime.heartbeats._tells
    assert [tells("OperationalError 1290") for _ in range(3)] == [True, False, False]
    assert tells("OperationalError 2006")
