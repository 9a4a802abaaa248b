"""An email that comes for an erased person ends suppressed, and is erased in that transaction."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.domain.search.digests import recipient_digest
from outbox.store.connection.one_by_one import MOST
from outbox.store.transitions import release
from outbox.worker.drain import drain
from tests.integration.store.outages.rows.test_rows_own_errors import CODES
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.schema import refusing
from tests.support.shop.shop import Shop, Shops, message, newsletter
from tests.support.shop.watching.traces import traces

pytestmark = pytest.mark.each_database

ADA, BOB = "Ada@customers.example", "bob@customers.example"
SAID = "the number is 271828"


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    """Return a shop that has erased Ada."""
    made = shops.open(MAIL_PORT=catcher.port, SECRET_KEY="a secret")
    assert made.outbox.erase(ADA).is_whole
    return made


def write(shop: Shop, *to: str, text: str = SAID, **options: Any) -> int:
    with shop.session() as session:
        email = shop.outbox.enqueue(message(*to, text=text), session=session, **options)
        session.commit()
    return email.id


def news(shop: Shop, *readers: str) -> int:
    with shop.session() as session:
        added = shop.outbox.enqueue_many(
            newsletter("Dear {{ who }}"),
            readers,
            session=session,
            key=lambda to: f"news-{to}",
            fields=lambda address: {"who": address},
        )
        session.commit()
    return added


def end_batch(shop: Shop) -> Callable[[], object]:
    """Claim what waits as one batch; return what ends it."""
    (made,) = shop.claim()
    batch = shop.start(made.token)
    assert batch is not None
    ids = [email.id for email in batch.emails]
    assert batch.erased == set(ids)
    end = partial(release.suppress, database=shop.database, token=made.token, ids=ids)
    return partial(shop.database.run, partial(end, erased=batch.erased))


def test_it_keeps_its_row_and_loses_the_address_and_what_it_says(shop: Shop) -> None:
    ids = [
        write(shop, ADA.swapcase(), key=f"order.{ADA}", tag=f"to {ADA}"),
        *(write(shop, ADA, text=SAID * 5000) for _ in range(2)),  # one content
    ]
    drain(shop.runtime)
    assert [shop.status(email_id) for email_id in ids] == ["suppressed"] * 3
    assert traces(shop, ADA, SAID) == set()
    digests = {row.digest for row in shop.rows(shop.tables.lookup)}
    assert recipient_digest(ADA) not in digests
    assert all(shop.email_row(email_id).finished_at for email_id in ids)


@pytest.mark.long
def test_a_newsletter_with_keys_that_comes_again_does_not_bring_the_person_back(
    shop: Shop, catcher: Catcher
) -> None:
    assert news(shop, ADA, BOB) == 2
    drain(shop.runtime)
    assert news(shop, ADA, BOB) == 1, "Ada's key went with her address"
    drain(shop.runtime)
    assert traces(shop, ADA) == set()
    assert shop.statuses() == ["suppressed", "sent", "suppressed"]
    assert [mail.recipients for mail in catcher.emails] == [(BOB,)]
    assert shop.outbox.list(recipient=BOB).emails[0].key == f"news-{BOB}"


@pytest.mark.long
def test_nobody_else_is_erased(shop: Shop, catcher: Catcher) -> None:
    shop.outbox.suppress(BOB)
    listed = write(shop, BOB, key="for Bob")
    both = write(shop, BOB, ADA)
    kept = [shop.email_row(listed).content_id, shop.email_row(both).content_id]
    drain(shop.runtime)
    assert {shop.status(listed), shop.status(both)} == {"suppressed"}
    assert shop.email_row(listed).recipient == BOB
    assert shop.email_row(listed).key == "for Bob"
    contents = shop.rows(shop.tables.content, shop.tables.content.c.id.in_(kept))
    assert [row.redacted_at for row in contents] == [None] * len(contents)
    assert shop.outbox.erase(ADA).emails == 1, "what others have too waits for the next erasure"
    assert traces(shop, ADA) == set()


@pytest.mark.long
@pytest.mark.parametrize("is_of_its_own", [False, True], ids=["faulty data", "its own error"])
def test_emails_that_cannot_be_erased_end_all_the_same_and_stop_no_other(
    shop: Shop, is_of_its_own: bool
) -> None:
    ids = [write(shop, ADA) for _ in range(MOST + 3)]
    code = CODES[shop.engine.dialect.name][0] if is_of_its_own else ""
    condition = f"OLD.status = 'suppressed' AND OLD.id <> {ids[-2]}"
    end = end_batch(shop)
    with refusing(shop.engine, "outbox_email", condition, code=code):
        end()
    assert set(shop.statuses()) == {"suppressed"}
    assert [one for one in ids if shop.email_row(one).redacted_at] == [ids[-2]]
    assert shop.outbox.erase(ADA).emails == len(ids) - 1


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_a_worker_waits_for_no_transaction_that_has_locked_the_content(shop: Shop) -> None:
    email_id = write(shop, ADA, key=f"order-{ADA}")
    content = shop.tables.content
    with ThreadPoolExecutor(1) as pool, shop.session() as session:
        session.execute(sa.select(content.c.id).with_for_update())
        try:
            pool.submit(drain, shop.runtime).result(30)
        finally:
            session.rollback()
    assert shop.status(email_id) == "suppressed"
    assert shop.email_row(email_id).redacted_at is None
    assert shop.outbox.erase(ADA).emails == 1
    assert traces(shop, ADA, SAID) == set()


@pytest.mark.databases("postgresql")
def test_a_foreign_key_of_an_open_transaction_holds_up_no_erasure(shop: Shop) -> None:
    write(shop, ADA, key=f"order-{ADA}")
    end = end_batch(shop)
    points = sa.select(shop.tables.email.c.id).with_for_update(read=True, key_share=True)
    with ThreadPoolExecutor(1) as pool, shop.session() as session:
        session.execute(points)  # as a foreign key does
        try:
            pool.submit(end).result(30)
        finally:
            session.rollback()
    assert traces(shop, ADA, SAID) == set()
