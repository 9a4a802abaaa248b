"""An address beyond ASCII has two spellings, which look alike, and is one person's all the same."""

from __future__ import annotations

from unicodedata import normalize

import pytest

from outbox.domain.config.retention import Retention
from outbox.domain.header import address as of_address
from outbox.flask_ext.management.privacy.erase import is_erased
from outbox.store.retention.purge import purge
from outbox.worker.drain import drain
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.watching.traces import traces

pytestmark = pytest.mark.each_database

COMPOSED = "José@customers.example"
APART = normalize("NFD", COMPOSED)
BOTH = pytest.mark.parametrize(("one", "other"), [(COMPOSED, APART), (APART, COMPOSED)])
FORMER = pytest.mark.parametrize("former", [False, True], ids=["", "of an earlier version"])


@pytest.fixture
def shop(shops: Shops) -> Shop:
    return shops.open(SECRET_KEY="a secret")


class Written:
    """What is written within the block has its accents as they were given, as formerly."""

    def __init__(self, *, former: bool) -> None:
        self.former = former
        self.patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        if self.former:
            self.patch.setattr(of_address, "normalize", lambda _, text: text)

    def __exit__(self, *raised: object) -> None:
        self.patch.undo()


def sent(shop: Shop, *to: str) -> str:
    """Return what becomes of an email, where nobody gets one."""
    with shop.session() as session:
        email_id = shop.outbox.enqueue(message(*to), session=session).id
        session.commit()
    drain(shop.runtime)
    return shop.status(email_id)


def cancel(shop: Shop, email_id: int) -> None:
    with shop.session() as session:
        shop.outbox.cancel(id=email_id, session=session)
        session.commit()


@pytest.mark.matrix
@FORMER
@BOTH
def test_who_is_suppressed_in_one_spelling_gets_no_email_in_the_other(
    one: str, other: str, former: bool, shop: Shop
) -> None:
    with Written(former=former):
        assert shop.outbox.suppress(one)
    assert [entry.reason for entry in shop.outbox.suppressed(address=other)] == ["by hand"]
    assert not shop.outbox.suppress(other)
    assert shop.outbox.suppress_many([(other, "bounced"), ("b@x.example", "")]).added == 1
    assert sent(shop, other) == sent(shop, one, other) == "suppressed"
    assert shop.outbox.unsuppress(other)
    assert [entry.address for entry in shop.outbox.suppressed()] == ["b@x.example"]


@pytest.mark.matrix
@FORMER
@BOTH
def test_who_is_erased_in_one_spelling_is_so_in_the_other(
    one: str, other: str, former: bool, shop: Shop
) -> None:
    with Written(former=former):
        shop.outbox.erase(one)
    assert is_erased(shop.runtime, other)
    assert sent(shop, other) == "suppressed"
    assert traces(shop, COMPOSED, APART) == set()
    shop.outbox.erase(other)
    assert shop.outbox.readmit(other)
    assert not is_erased(shop.runtime, one)


@pytest.mark.matrix
@FORMER
@BOTH
def test_emails_to_one_spelling_are_found_by_the_other(
    one: str, other: str, former: bool, shop: Shop
) -> None:
    with Written(former=former):
        ids = [shop.enqueue(one).id, shop.enqueue("b@x.example", one).id]
    assert [email.id for email in shop.outbox.list(recipient=other)] == ids[::-1]
    assert len(list(shop.outbox.export(other))) == 2
    runner(shop)("index")
    assert [email.id for email in shop.outbox.list(recipient=other)] == ids[::-1]
    cancel(shop, ids[1])
    assert shop.outbox.erase(other).is_whole
    assert traces(shop, COMPOSED, APART) == set()
    assert not any(list(shop.outbox.list(recipient=each)) for each in (one, other))


@FORMER
def test_a_purge_leaves_no_row_behind(former: bool, shop: Shop) -> None:
    with Written(former=former):
        email_id = shop.enqueue(APART).id
    cancel(shop, email_id)
    shop.later(1)
    assert sum(done.emails for done in purge(shop.database, Retention.of_all(0.0))) == 1
    assert shop.count(shop.tables.lookup) == 0
