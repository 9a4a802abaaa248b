"""Whatever enqueues an email keeps the current span's context with it, and nothing without one."""

from __future__ import annotations

import asyncio

import flask_mail
import pytest
import sqlalchemy as sa
from opentelemetry.trace import Span, format_trace_id
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from outbox import OutboxMail
from outbox.domain.traceparent import TraceParent
from outbox.worker.drain import drain
from tests.support.servers.databases.drivers import ASYNCHRONOUS, over
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.encryption import keys
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

from .conftest import Recording

EACH = pytest.mark.each_database
ONE = pytest.mark.one_database("sqlite")


def context(span: Span) -> str:
    found = span.get_span_context()
    return str(TraceParent(found.trace_id, found.span_id, found.trace_flags))


def kept(shop: Shop) -> list[str | None]:
    return [row.traceparent for row in shop.rows(shop.tables.email)]


def one(shop: Shop) -> None:
    shop.enqueue()


def one_to_several(shop: Shop) -> None:
    shop.enqueue("a@x.example", "b@x.example", key="order-1")


def one_of_a_stored_content(shop: Shop) -> None:
    for _ in range(2):
        with shop.session() as session:
            shop.outbox.enqueue(message(text="x" * 100_000), session=session)
            session.commit()


def many(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many((message(to) for to in addresses(3)), session=session)
        session.commit()


def readers(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(3), session=session)
        session.commit()


def readers_with_keys(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(3), session=session, key=str)
        session.commit()


def asynchronously(shop: Shop) -> None:
    async def run() -> None:
        url = shop.engine.url.render_as_string(hide_password=False)
        driver = ASYNCHRONOUS[shop.engine.url.get_backend_name()][0]
        engine = create_async_engine(over(url, driver), poolclass=NullPool)
        async with AsyncSession(engine) as session:
            await shop.outbox.enqueue_async(message(), session=session)
            await session.commit()
        await engine.dispose()

    asyncio.run(run())


DOORS = (
    one,
    one_to_several,
    one_of_a_stored_content,
    many,
    readers,
    readers_with_keys,
    asynchronously,
)


@pytest.mark.long
@EACH
def test_each_door_keeps_the_current_context(shop: Shop, recording: Recording) -> None:
    for door in DOORS:
        before = len(kept(shop))
        with recording.request() as span:
            door(shop)
        assert set(kept(shop)[before:]) == {context(span)}, door


@ONE
def test_the_drop_in_keeps_the_current_context(shops: Shops, recording: Recording) -> None:
    shop, db = shops.open_flask()
    mail = OutboxMail(shop.app)
    with shop.app.app_context(), recording.request() as span:
        mail.send(flask_mail.Message("Hi", ["a@x.example"], "Hi", sender="shop@shop.example"))
        db.session.commit()
    assert kept(shop) == [context(span)]


@EACH
def test_without_a_span_nothing_is_kept(shop: Shop) -> None:
    for door in (one, one_of_a_stored_content, many, readers):
        door(shop)
    assert set(kept(shop)) == {None}
    assert shop.outbox.get(1).trace_id is None  # type: ignore[union-attr]


@ONE
def test_an_email_tells_its_trace_to_people_who_look_after_it(
    shop: Shop, recording: Recording
) -> None:
    with recording.request() as span:
        email = shop.enqueue()
    trace = format_trace_id(span.get_span_context().trace_id)
    found = shop.outbox.get(email.id)
    assert found is not None
    assert found.trace_id == trace
    assert trace in runner(shop)("show", email.id).output
    with shop.engine.begin() as connection:  # what nobody of ours writes
        connection.execute(sa.update(shop.tables.email).values(traceparent="forged"))
    found = shop.outbox.get(email.id)
    assert found is not None
    assert found.trace_id is None


@EACH
def test_a_message_that_is_sent_again_has_the_new_request_s_trace(
    shop: Shop, recording: Recording
) -> None:
    with recording.request() as first:
        email = shop.enqueue()
    with recording.request("POST /again") as second:
        shop.outbox.send_again(email.id)
    shop.outbox.send_again(email.id)
    assert kept(shop) == [context(first), context(second), None]


@pytest.mark.long
@EACH
def test_an_export_leaves_the_trace_out_and_an_erasure_removes_it(
    shops: Shops, catcher: Catcher, recording: Recording
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, SECRET_KEY="a secret", **keys("k1"))
    with recording.request() as span:
        shop.enqueue("ada@x.example")
        shop.enqueue("bob@x.example")
    trace = format_trace_id(span.get_span_context().trace_id)
    assert trace not in runner(shop)("export", "ada@x.example").output
    drain(shop.runtime)
    shop.outbox.erase("ada@x.example")
    assert kept(shop) == [None, context(span)]
