"""A proxy sends plain reads to a replica that lags: no email fails or is sent twice for that.

The proxy's part is played in front of the driver: a plain read reads from tables of the replica's
own, into which nothing comes, as from a replica whose replay stands still.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.worker.batch.batch_end import BatchEnd
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses

pytestmark = pytest.mark.databases("postgresql", "mariadb")

BEHIND = "_of_the_replica"


def copied(shop: Shop, *names: str) -> None:
    """Have the replica replay what is in these tables now, and nothing after that."""
    with shop.engine.begin() as connection:
        for name in names:
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}{BEHIND}")
            connection.exec_driver_sql(f"CREATE TABLE {name}{BEHIND} AS SELECT * FROM {name}")


@contextmanager
def split(shop: Shop, first: str, *others: str) -> Iterator[list[str]]:
    """Split reads from writes as such proxies do; yield the statements that the replica gets.

    It gets the reads of the `first` table, with what they read of the `others`, in autocommit, and
    those of a transaction that has not written or locked.
    """
    engine, on_replica = shop.database.engine, list[str]()

    def choose(
        connection: sa.Connection, _cursor: object, statement: str, parameters: Any, *_: object
    ) -> tuple[str, Any]:
        is_write = not statement.startswith("SELECT") or " FOR " in statement
        if is_write and connection.get_isolation_level() != "AUTOCOMMIT":
            connection.info[BEHIND] = True
        if is_write or BEHIND in connection.info or f"FROM {first}" not in statement:
            return statement, parameters
        on_replica.append(statement)
        for name in (first, *others):
            statement = statement.replace(name, name + BEHIND)
        return statement, parameters

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
    copied(shop, "outbox_content")
    for address in addresses(3):
        shop.enqueue(address)
    with split(shop, "outbox_content") as on_replica:
        drain(shop.runtime)
    assert on_replica
    assert shop.statuses() == [Status.SENT] * 3
    assert set(catcher.copies().values()) == {1}


def test_a_batch_whose_lease_the_replica_does_not_have_yet_is_not_started(
    sending: Shop, catcher: Catcher
) -> None:
    copied(sending, "outbox_lease")
    for address in addresses(3):
        sending.enqueue(address)
    with split(sending, "outbox_lease") as on_replica:
        (made,) = sending.claim()
        assert send_batch(sending.runtime, made.token).end is BatchEnd.STALE
    assert on_replica
    assert [row.started_at for row in sending.rows(sending.tables.lease)] == [None]
    assert sending.rescue() == 1
    assert {(row.status, row.crashes) for row in sending.rows(sending.tables.email)} == {
        (Status.PENDING, 0)
    }
    assert drain(sending.runtime) == 3
    assert set(catcher.copies().values()) == {1}


def test_of_several_recipients_nobody_is_forgotten_and_nobody_gets_a_second_copy(
    sending: Shop, catcher: Catcher
) -> None:
    """The replica has them as they were before the first of them got the email."""
    first, second = addresses(2)
    email = sending.enqueue(first, second)
    copied(sending, "outbox_recipient", "outbox_email")
    catcher.reply_to_recipient = lambda to: "451 4.3.0 later" if to == second else None
    drain(sending.runtime)
    assert sending.recipients(email.id) == {first: "sent", second: "pending"}
    sending.later(86_400)
    catcher.reply_to_recipient = lambda _: None
    with split(sending, "outbox_recipient", "outbox_email") as on_replica:
        (made,) = sending.claim()
        send_batch(sending.runtime, made.token)
    assert on_replica
    assert set(catcher.copies().values()) == {1}
    sending.rescue()
    assert (sending.status(email.id), sending.email_row(email.id).crashes) == (Status.PENDING, 0)
    drain(sending.runtime)
    assert sending.recipients(email.id) == {first: "sent", second: "sent"}
    assert set(catcher.copies().values()) == {1}


def test_an_email_does_not_fail_whose_recipients_only_the_replica_lacks(
    sending: Shop, catcher: Catcher
) -> None:
    copied(sending, "outbox_recipient")
    email = sending.enqueue(*addresses(2))
    with split(sending, "outbox_recipient") as on_replica:
        (made,) = sending.claim()
        assert send_batch(sending.runtime, made.token).settled == 0
    assert on_replica
    assert catcher.copies() == {}
    sending.rescue()
    assert sending.status(email.id) is Status.PENDING
    assert drain(sending.runtime) == 1
    assert set(catcher.copies().values()) == {1}
