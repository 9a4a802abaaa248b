"""On a database that drops FOR UPDATE, as SQL Server does, the write itself guards an email.

No such server can be had here. Its part is played by MariaDB and PostgreSQL without the clause.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.store.transitions.window import advance_in_steps
from tests.support.shop.shop import WORKER, Shop

pytestmark = pytest.mark.databases("postgresql", "mariadb")


def test_an_email_that_is_withdrawn_just_before_the_write_is_not_opened(shop: Shop) -> None:
    gone, stays = shop.enqueue(tag="t").id, shop.enqueue().id
    made, withdrawn = shop.started(), list[int]()

    def drop(
        _connection: object, _cursor: object, statement: str, parameters: Any, *_: object
    ) -> tuple[str, Any]:
        if statement.startswith("UPDATE outbox_email") and not withdrawn:
            withdrawn.append(gone)
            with shop.session() as session:
                assert shop.outbox.cancel(tag="t", session=session) == 1
                session.commit()
        return re.sub(r"\s+FOR (NO KEY )?UPDATE( SKIP LOCKED)?", "", statement), parameters

    sa.event.listen(shop.engine, "before_cursor_execute", drop, retval=True)
    done = advance_in_steps(shop.database, made.token, [], [gone, stays], worker=WORKER)
    sa.event.remove(shop.engine, "before_cursor_execute", drop)
    assert done.opened == {stays}
    assert [shop.status(i) for i in (gone, stays)] == [Status.CANCELLED, Status.SENDING]
