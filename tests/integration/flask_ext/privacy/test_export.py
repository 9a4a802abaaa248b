"""An export has everything of one person, and nothing of anybody else."""

from __future__ import annotations

import json
from email import message_from_bytes
from typing import Any

import pytest

from outbox.domain.errors import InvalidMessage
from outbox.flask_ext.management.privacy.export import ExportedEmail
from outbox.store.report_records import Suppression
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.encryption import keys
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, message, newsletter

pytestmark = pytest.mark.each_database

ADA, BOB = "Ada@customers.example", "bob@customers.example"


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    made = shops.open(MAIL_PORT=catcher.port, SECRET_KEY="a secret", **keys("k1"))
    with made.session() as session:
        mail = message(f"Ada <{ADA}>", subject="Grüße", text="For Ada alone.")
        mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="terms.pdf")
        made.outbox.enqueue(mail, session=session, tag="order")
        made.outbox.enqueue(message(BOB, text="For Bob alone."), session=session)
        both = message(BOB, ADA.lower(), Bcc="c@x.example", text="For both.")
        made.outbox.enqueue(
            both,
            session=session,
            key=f"order-{BOB.upper()}",
            tag="for c@x.example",
            envelope_from="bounce+bob=customers.example@shop.example",
        )
        own: dict[str, Any] = {
            "key": f"5-{ADA}",
            "tag": "pair",
            "envelope_from": "bounce@shop.example",
        }
        made.outbox.enqueue(message(ADA, BOB, text="For two."), session=session, **own)
        made.outbox.enqueue_many(
            newsletter("Dear {{ name }}"),
            [ADA, BOB],
            session=session,
            fields=lambda address: {"name": address.partition("@")[0]},
        )
        session.commit()
    return made


@pytest.mark.long
def test_each_email_comes_with_its_fate_and_what_it_said_and_without_others(
    shop: Shop, catcher: Catcher
) -> None:
    catcher.reply_to_recipient = lambda to: f"550 {BOB} is gone" if to == BOB else None
    drain(shop.runtime)
    shop.outbox.suppress(ADA, "asked us")
    listed, *emails = shop.outbox.export(ADA.upper())
    assert isinstance(listed, Suppression)
    assert (listed.address, listed.reason) == (ADA.lower(), "asked us")
    found = [one for one in emails if isinstance(one, ExportedEmail)]
    texts = [one.message.text for one in found if one.message]
    assert texts == ["Dear Ada\n", "For two.\n", "For both.\n", "For Ada alone.\n"]
    order = found[-1]
    assert order.message is not None
    assert dict(order.message.headers)["Subject"] == order.email.subject == "Grüße"
    assert order.message.files == ("terms.pdf",)
    assert (order.email.tag, order.email.status) == ("order", "sent")
    assert order.email.attempt_list[0].code == 250
    two, both = found[1:3]
    assert (two.email.key, two.email.tag) == (f"5-{ADA}", "pair")
    assert two.email.envelope_from == "bounce@shop.example"
    assert (both.email.key, both.email.tag, both.email.envelope_from) == (None, None, "")
    assert both.email.recipient == ADA.upper()
    assert [one.address for one in both.email.recipient_list] == [ADA.lower()]
    told = repr([one.email for one in found])
    assert "For Bob" not in repr(found)
    assert BOB not in told.lower()
    assert "bob=customers" not in told
    assert "c@x.example" not in repr(found)


def test_anothers_address_is_left_out_whatever_is_written_beside_it(shop: Shop) -> None:
    longer = f"j.{BOB}"
    with shop.session() as session:
        shop.outbox.enqueue(
            message(ADA, BOB, longer),
            session=session,
            key=f"share.{BOB}",
            tag=f"{BOB}.invite",
            envelope_from="bounce.bob=customers.example@shop.example",
        )
        shop.outbox.enqueue(message(BOB, longer), session=session, key=f"order-{longer}")
        session.commit()
    mine = next(one for one in shop.outbox.export(ADA) if isinstance(one, ExportedEmail))
    assert (mine.email.key, mine.email.tag, mine.email.envelope_from) == (None, None, "")
    own = next(one for one in shop.outbox.export(longer) if isinstance(one, ExportedEmail))
    assert own.email.key == f"order-{longer}", "it is this person's own"


BROKEN = b"Content-Disposition: attachment; filename*\r\n\r\nFor Ada, too.\r\n"
PARTS = b"""Content-Type: multipart/mixed; boundary="="

--=
Content-Type: text/plain; charset*

For Ada, too.
--=
Content-Type: application/pdf
Content-Disposition: attachment; filename="a.pdf"

x
--=
"""


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("rest", "text", "files"),
    [
        (BROKEN, None, ()),  # a message may be a file
        (PARTS + BROKEN + b"\n--=--\n", "For Ada, too.", ("a.pdf",)),
    ],
    ids=["alone", "as a part"],
)
def test_a_header_that_cannot_be_read_hides_no_other_email(
    shop: Shop, rest: bytes, text: str | None, files: tuple[str, ...]
) -> None:
    head = f"From: shop@shop.example\r\nTo: {ADA}\r\nMIME-Version: 1.0\r\n".encode()
    with shop.session() as session:
        shop.outbox.enqueue(message_from_bytes(head + rest), session=session)
        session.commit()
    emails = [one for one in shop.outbox.export(ADA) if isinstance(one, ExportedEmail)]
    found = [one.message for one in emails if one.message]
    assert [one.text for one in found[1:]] == [
        "Dear Ada\n",
        "For two.\n",
        "For both.\n",
        "For Ada alone.\n",
    ]
    assert (found[0].text, found[0].files) == (text, files)
    if not files:
        assert ("Content-Disposition", "attachment; filename*") in found[0].headers


def test_the_command_prints_a_line_of_json_for_each(shop: Shop) -> None:
    shop.outbox.suppress(ADA)
    lines = runner(shop)("export", ADA).stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert [one["kind"] for one in records] == ["suppression", *["email"] * 4]
    assert records[1]["message"]["text"] == "Dear Ada\n"
    assert runner(shop)("export", "nobody@x.example").stdout == ""
    assert "ADDRESS" in runner(shop)("export", "nobody", code=2).output


@pytest.mark.long
def test_what_was_erased_is_not_exported(shop: Shop) -> None:
    drain(shop.runtime)
    shop.outbox.erase(ADA)
    assert list(shop.outbox.export(ADA)) == []


def test_an_email_whose_encryption_key_is_missing_is_exported_without_its_message(
    shop: Shop, shops: Shops
) -> None:
    without = shops.open(**keys("k2"))
    for one in without.outbox.export(ADA):
        assert isinstance(one, ExportedEmail)
        assert one.message is None
        assert "k1, which is missing" in one.email.subject


def test_an_address_that_is_none_is_refused_at_once(shop: Shop) -> None:
    with pytest.raises(InvalidMessage, match="address"):
        shop.outbox.export("Ada")
