"""A row whose opening takes too long is not said to be at fault: the limit is the database's."""

from __future__ import annotations

import logging

import pytest

from tests.integration.store.locks import swept
from tests.integration.store.outages.rows.test_rows_own_errors import CODES, work
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.schema import refusing
from tests.support.shop.shop import Shop, Shops, addresses


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("is_too_long", [True, False])
def test_the_log_names_the_limit_and_not_the_row(
    shop: Shop,
    shops: Shops,
    catcher: Catcher,
    caplog: pytest.LogCaptureFixture,
    is_too_long: bool,
) -> None:
    first, *_ = [shop.enqueue(address).id for address in addresses(2)]
    motion = swept(shops, catcher, OUTBOX_WINDOW=2, OUTBOX_SLOTS=1)
    code = CODES[shop.engine.dialect.name][2 if is_too_long else 0]
    opens = f"OLD.id = {first} AND NEW.status = 'sending'"
    with (
        caplog.at_level(logging.ERROR, logger="outbox"),
        refusing(shop.engine, "outbox_email", opens, code=code),
    ):
        work(motion)
    [line] = [one.getMessage() for one in caplog.records if "cannot be sent" in one.getMessage()]
    assert line.startswith(f"outbox: email {first} cannot be sent: ")
    assert ("its row does not open" in line) is not is_too_long
    assert ("longer than the database allows a statement" in line) is is_too_long
