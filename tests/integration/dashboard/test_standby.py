"""A dashboard over a standby of PostgreSQL shows all of its pages, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.instance.copies import PhysicalCopy
from tests.support.servers.databases.postgres import Postgres
from tests.support.shop import schema
from tests.support.shop.shop import Shops, message, newsletter

from . import scene
from .desk import Desk

pytestmark = pytest.mark.long

ADDRESS = "gone@customers.example"
PAGES = (
    "/", "/now", "/figures", "/messages", "/messages/1", "/problems", "/newsletters",
    "/newsletters/tag?tag=news", "/jobs", "/suppressed", "/workers", "/pauses", "/held", "/audit",
)  # fmt: skip


@contextmanager
def desk_over(url: str) -> Iterator[Desk]:
    shops = Shops(url=url)
    try:
        yield Desk(shops)
    finally:
        shops.close()


@pytest.fixture
def standby() -> Iterator[Desk]:
    """The dashboard over a standby of a database in which there is something to see."""
    with Postgres(durable=False) as server:
        source = server.new_database(schema.fill)
        with desk_over(source) as desk:
            desk.enqueue(message())
            with desk.shop.session() as session:
                readers = ["r1@readers.example", "r2@readers.example"]
                desk.shop.outbox.enqueue_many(newsletter(), readers, session=session, tag="news")
                session.commit()
            scene.fleet(desk.shop)
            scene.figures(desk.shop)
        server.stop()
        with (
            PhysicalCopy(server, signal="standby") as copy,
            desk_over(copy.url(source)) as desk,
        ):
            yield desk


@pytest.mark.databases("postgresql")
def test_a_standby_shows_each_page_and_an_act_changes_nothing(standby: Desk) -> None:
    for page in PAGES:
        standby.get(page)
    done = standby.post("/suppressed/add", "/suppressed", 500, new=ADDRESS, reason="left")
    assert "look at what there is before you repeat it" in done.text
    assert standby.shop.outbox.suppressed() == ()
    assert standby.shop.outbox.audit() == ()
