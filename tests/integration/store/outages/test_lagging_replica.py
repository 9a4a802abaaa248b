"""A proxy sends plain reads to a replica that lags behind: no email fails for that.

The proxy's part is played in front of the driver: a plain read reads the contents from a table of
their own, into which nothing comes, as from a replica whose replay stands still.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses

pytestmark = pytest.mark.databases("postgresql", "mariadb")

BEHIND = "content_of_the_replica"


@contextmanager
def split(shop: Shop) -> Iterator[list[str]]:
    """Split reads from writes as such proxies do; yield the statements that the replica gets.

    It gets the reads in autocommit, and those of a transaction that has not written or locked.
    """
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(
            f"CREATE TABLE {BEHIND} AS SELECT * FROM outbox_content WHERE 1 = 0"
        )
    engine, on_replica = shop.database.engine, list[str]()

    def choose(
        connection: sa.Connection, _cursor: object, statement: str, parameters: Any, *_: object
    ) -> tuple[str, Any]:
        is_write = not statement.startswith("SELECT") or " FOR " in statement
        if is_write and connection.get_isolation_level() != "AUTOCOMMIT":
            connection.info[BEHIND] = True
        if is_write or BEHIND in connection.info or "FROM outbox_content" not in statement:
            return statement, parameters
        on_replica.append(statement)
        return statement.replace("outbox_content", BEHIND), parameters

    def over(connection: sa.Connection) -> None:
        connection.info.pop(BEHIND, None)

    sa.event.listen(engine, "before_cursor_execute", choose, retval=True)
    for end in ("commit", "rollback"):
        sa.event.listen(engine, end, over)
    yield on_replica
    sa.event.remove(engine, "before_cursor_execute", choose)
    for end in ("commit", "rollback"):
        sa.event.remove(engine, end, over)


def test_a_content_that_the_replica_does_not_have_yet_is_read_from_the_primary(
    shops: Shops, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    for address in addresses(3):
        shop.enqueue(address)
    with split(shop) as on_replica:
        drain(shop.runtime)
    assert on_replica
    assert shop.statuses() == [Status.SENT] * 3
    assert set(catcher.copies().values()) == {1}
