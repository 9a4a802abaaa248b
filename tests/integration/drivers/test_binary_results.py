"""A batch and its contents are read in binary over psycopg, and are the same over each driver."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes
from email.policy import default

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from outbox.store.connection.psycopg.binary_results import binary_results
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shops, message

pytestmark = pytest.mark.databases("postgresql")

OCTETS = bytes(range(256)) * 4
TEXT, BINARY = 0, 1


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    """The test's database."""
    made = sa.create_engine(database_url, poolclass=NullPool)
    yield made
    made.dispose()


def form(connection: sa.Connection) -> int:
    """Return the form in which octets come, and see that they are right."""
    result = connection.execute(sa.select(sa.literal(OCTETS, sa.LargeBinary)))
    found: int = result.cursor.pgresult.fformat(0)
    assert result.scalar_one() == OCTETS
    return found


def test_octets_come_as_they_are_stored_in_the_block_and_as_text_behind_it(
    engine: sa.Engine,
) -> None:
    with engine.connect() as connection:
        with binary_results(connection):
            assert form(connection) == BINARY
        with pytest.raises(ZeroDivisionError), binary_results(connection):
            raise ZeroDivisionError
        assert form(connection) == TEXT


def test_a_cursor_that_the_app_has_chosen_is_kept(database_url: str) -> None:
    chosen = {"cursor_factory": psycopg.ClientCursor}
    engine = sa.create_engine(database_url, poolclass=NullPool, connect_args=chosen)
    with engine.connect() as connection, binary_results(connection):
        assert isinstance(connection.connection.cursor(), psycopg.ClientCursor)
        assert form(connection) == TEXT


@pytest.mark.each_driver
def test_each_octet_of_a_content_arrives_over_each_driver(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    sent = message("ada@example.com")
    sent.add_attachment(OCTETS, "application", "octet-stream")
    with shop.session() as session:
        shop.outbox.enqueue(sent, session=session)
        session.commit()

    drain(shop.runtime)

    [caught] = catcher.emails
    arrived = message_from_bytes(caught.content, policy=default)
    [part] = arrived.iter_attachments()
    assert part.get_content() == OCTETS
