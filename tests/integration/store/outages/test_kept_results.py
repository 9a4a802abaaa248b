"""A result whose row alone fails is known as long as its process lives: no rescue takes it over."""

from __future__ import annotations

import pytest

from outbox import Status
from outbox.worker.process import unrecorded
from tests.integration.store.locks import PATIENCE
from tests.integration.store.transitions.test_rescue import judge
from tests.support.shop.schema import refusing
from tests.support.shop.shop import LEASE, Shop, addresses, sent
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql", "mariadb")

CODES = {"postgresql": "UE001", "mariadb": "31001"}
SENT, SENDING = Status.SENT, Status.SENDING


@pytest.mark.parametrize("gives_back", [True, False], ids=["a good end", "an error"])
def test_the_rescue_waits_while_a_row_takes_no_result(
    shop: Shop,
    gives_back: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(unrecorded, "FAILING_WAIT", unrecorded.FIRST_WAIT)
    ids = [shop.enqueue(address).id for address in addresses(2)]
    made = shop.started()
    shop.open(made.token, *ids)
    kept, tries = shop.runtime.unrecorded, 0
    never = f"OLD.id = {ids[0]} AND NEW.status = 'sent'"
    code = CODES[shop.engine.dialect.name]

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
    assert shop.mail(ids[0]).unknown_count == 0
    assert shop.count(shop.tables.attempt) == len(ids)
