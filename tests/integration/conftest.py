"""A small shop with an outbox on a fresh database, where no step off the lifecycle is possible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from outbox.store.inserts import chunks
from tests.support.measuring import is_measured
from tests.support.servers.server import Fill
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.postfix import Postfix
from tests.support.shop import schema
from tests.support.shop.shared_tables import SharedTables, shared_over
from tests.support.shop.shop import Shop, Shops


@pytest.fixture(scope="session")
def shop_tables() -> Fill:
    """Creates what a shop needs in an empty database."""
    return schema.fill


@pytest.fixture
def shops(database_url: str, request: pytest.FixtureRequest) -> Iterator[Shops]:
    """Opens shops with settings of the test's own."""
    has_tables = "shops" in request.fixturenames  # `database_url` has filled it
    opened = Shops(url=database_url, has_tables=has_tables, shared=_shared(request, database_url))
    yield opened
    opened.close()


def _shared(request: pytest.FixtureRequest, url: str) -> SharedTables:
    """Return what the test's shops share with those of other tests."""
    shared = shared_over(sa.make_url(url).drivername, measured=is_measured(request.node))
    # What a test replaces may get into the statements that are built.
    return shared.apart() if "monkeypatch" in request.fixturenames else shared


@pytest.fixture
def shop(shops: Shops) -> Shop:
    """A shop on plain SQLAlchemy."""
    return shops.open()


@pytest.fixture
def sending(shops: Shops, catcher: Catcher) -> Shop:
    """A shop whose emails go to the catcher."""
    return shops.open(MAIL_PORT=catcher.port)


@pytest.fixture(scope="session")
def postfix() -> Iterator[Postfix]:
    """A Postfix for all tests: nobody stops it."""
    with Postfix() as server:
        yield server


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of what goes in one statement: few emails are several of them."""
    monkeypatch.setattr(chunks, "ENQUEUE_CHUNK", chunks.ENQUEUE_CHUNK // 10)
