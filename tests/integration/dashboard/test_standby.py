"""A dashboard over a standby of PostgreSQL shows all of its pages, and changes nothing.

So does one on the primary whose role may only read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from tests.integration.dashboard import scene
from tests.integration.dashboard.desk import Desk
from tests.integration.instance.copies import PhysicalCopy
from tests.support.servers.databases.postgres import Postgres
from tests.support.shop import schema
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shops, message, newsletter

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


def fill(desk: Desk) -> None:
    """Enqueue and note what there is to see."""
    desk.enqueue(message())
    with desk.shop.session() as session:
        readers = ["r1@readers.example", "r2@readers.example"]
        desk.shop.outbox.enqueue_many(newsletter(), readers, session=session, tag="news")
        session.commit()
    scene.fleet(desk.shop)
    scene.figures(desk.shop)


def shows_and_changes_nothing(desk: Desk) -> None:
    for page in PAGES:
        desk.get(page)
    done = desk.post("/suppressed/add", "/suppressed", 500, new=ADDRESS, reason="left")
    assert "look at what there is before you repeat it" in done.text
    assert desk.shop.outbox.suppressed() == ()
    assert desk.shop.outbox.audit() == ()


@pytest.fixture
def standby() -> Iterator[Desk]:
    """The dashboard over a standby of a database in which there is something to see."""
    with Postgres(durable=False) as server:
        source = server.new_database(schema.fill)
        with desk_over(source) as desk:
            fill(desk)
        server.stop()
        with (
            PhysicalCopy(server, signal="standby") as copy,
            desk_over(copy.url(source)) as desk,
        ):
            yield desk


@pytest.mark.databases("postgresql")
def test_a_standby_shows_each_page_and_an_act_changes_nothing(standby: Desk) -> None:
    shows_and_changes_nothing(standby)


@pytest.mark.databases("postgresql")
def test_so_does_a_role_that_may_only_read_and_check_is_for_those_who_write(
    database_url: str,
) -> None:
    url = sa.make_url(database_url)
    role = f"reader_{url.database}"
    with desk_over(database_url) as desk:
        fill(desk)
        engine = desk.shop.engine
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
            connection.exec_driver_sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
        with desk_over(url.set(username=role).render_as_string(hide_password=False)) as reader:
            shows_and_changes_nothing(reader)
            output = runner(reader.shop)("check", code=1).output
            assert f"the role {role} lacks a privilege: GRANT INSERT, UPDATE, DELETE ON" in output
        with engine.begin() as connection:
            connection.exec_driver_sql(f"DROP OWNED BY {role}")
            connection.exec_driver_sql(f"DROP ROLE {role}")
