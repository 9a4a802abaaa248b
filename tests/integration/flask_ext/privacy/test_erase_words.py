"""Keys, tags and senders in which an erased address stands: whose they are decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.domain.delivery.breaker_timing import Cause
from outbox.flask_ext.management.privacy import erase
from outbox.store.control.circuit_breaker import trip
from outbox.store.erasure.find import emails_of
from outbox.store.erasure.servers import PAGE
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.watching.traces import traces

pytestmark = [pytest.mark.each_database, pytest.mark.matrix]

ADA = "ada@customers.example"
LONGER = f"j.{ADA}"  # somebody else
VERP = "bounce.ada=customers.example@shop.example"


@pytest.fixture
def shop(shops: Shops) -> Shop:
    return shops.open(SECRET_KEY="a secret")


def write(shop: Shop, *to: str, **options: Any) -> int:
    with shop.session() as session:
        email = shop.outbox.enqueue(message(*to), session=session, **options)
        session.commit()
    return email.id


def words(shop: Shop, email_id: int) -> tuple[str | None, str | None, str]:
    mail = shop.email_row(email_id)
    return mail.key, mail.tag, mail.sender


@pytest.mark.parametrize("word", ["order.{}", "'{}'", "invoice-{}.pdf", "{}.reset", "for{}"])
def test_in_the_persons_own_emails_the_address_goes_whatever_is_written_beside_it(
    shop: Shop, word: str
) -> None:
    tag = word.format(ADA.upper())
    write(shop, ADA, key=word.format(ADA), envelope_from=VERP)
    write(shop, ADA, tag=tag)
    runner(shop)("cancel", "--tag", tag)
    assert "outbox_audit.what" in traces(shop, ADA)

    assert shop.outbox.erase(ADA).is_whole
    assert traces(shop, ADA, "ada=customers") == set()
    assert [entry.what for entry in shop.outbox.audit()] == [{"tag": "erased@invalid"}]


def test_a_longer_address_in_somebody_elses_email_and_in_the_audit_stays(shop: Shop) -> None:
    theirs: dict[str, Any] = {"key": f"order-{LONGER}", "tag": f"order.{LONGER}"}
    alone = write(shop, LONGER, **theirs, envelope_from=f"b+j.{VERP.removeprefix('bounce.')}")
    kept = words(shop, alone)
    both = write(shop, ADA, LONGER, key=f"both-{LONGER}", tag=f"both.{LONGER}")
    for word in ("order", "both"):
        runner(shop)("cancel", "--tag", f"{word}.{LONGER}")

    assert shop.outbox.erase(ADA).emails == 1
    assert words(shop, alone) == kept
    assert words(shop, both)[:2] == (f"both-{LONGER}", f"both.{LONGER}")
    tags = {entry.what["tag"] for entry in shop.outbox.audit()}
    assert tags == {f"order.{LONGER}", f"both.{LONGER}"}


def test_in_an_email_that_another_person_has_too_the_address_goes_as_well(shop: Shop) -> None:
    both = write(shop, LONGER, ADA, key=f"both.{ADA}", tag=f"{ADA}.invite", envelope_from=VERP)
    runner(shop)("cancel", "--tag", f"{ADA}.invite")
    assert shop.outbox.erase(ADA).is_whole
    assert [entry.what for entry in shop.outbox.audit()] == [{"tag": "erased@invalid"}]
    assert words(shop, both) == (None, None, "erased@invalid")


def test_a_reply_that_a_worker_notes_during_the_erasure_is_emptied_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(server: str, address: str) -> None:
        trip(shop.database, server, cause=Cause.EMAILS, reason=f"451 <{address}> try later")

    def found(*args: Any, **options: Any) -> Iterator[list[int]]:
        told("second:25", ADA)
        yield from emails_of(*args, **options)

    write(shop, ADA)
    told("first:25", ADA)
    told("third:25", LONGER)
    monkeypatch.setattr(erase, "emails_of", found)
    assert shop.outbox.erase(ADA).is_whole
    reasons = {row.server: row.reason for row in shop.rows(shop.tables.breaker)}
    assert reasons == {
        "first:25": "",
        "second:25": "",
        "third:25": f"451 <{LONGER}> try later",
    }


def test_the_reason_of_another_suppressed_address_does_not_name_the_person(shop: Shop) -> None:
    entries = {
        "team@corp.example": f"550 5.1.1 <{ADA.upper()}> user unknown",
        "verp@corp.example": "bounce+ada=customers.example@shop.example",
        "longer@corp.example": f"550 <{LONGER}>",
        "other@corp.example": "complaint",
        ADA: "complaint",
    }
    shop.outbox.suppress_many(entries.items())
    assert shop.outbox.erase(ADA).was_suppressed
    assert traces(shop, f"<{ADA}", "+ada=customers") == set()
    assert {entry.address: entry.reason for entry in shop.outbox.suppressed()} == {
        "team@corp.example": "",
        "verp@corp.example": "",
        "longer@corp.example": f"550 <{LONGER}>",
        "other@corp.example": "complaint",
    }


@pytest.mark.long
@pytest.mark.parametrize("person", [ADA, "josé@customers.example"])
def test_a_long_suppression_list_is_read_in_pages(person: str, shop: Shop) -> None:
    pages = 2
    entries = {f"{n}@corp.example": f"550 <{person}>" for n in range(pages * PAGE)}
    shop.outbox.suppress_many(entries.items())
    statements = list[str]()
    engine, event = shop.runtime.database.engine, "before_cursor_execute"

    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    sa.event.listen(engine, event, note)
    shop.outbox.erase(person)
    sa.event.remove(engine, event, note)
    read = [each for each in statements if each.startswith("SELECT outbox_suppression.address")]
    assert len([each for each in read if "ORDER BY outbox_suppression.address" in each]) > pages
    assert {entry.reason for entry in shop.outbox.suppressed()} == {""}


def test_so_it_is_for_an_address_beyond_ascii(shop: Shop) -> None:
    shop.outbox.suppress("team@corp.example", "moved to JOSÉ@Straße.example")
    shop.outbox.erase("josé@straße.example")
    assert [entry.reason for entry in shop.outbox.suppressed()] == [""]
