"""`OUTBOX_MESSAGE_ID_DOMAIN` is the domain of every Message-ID that is made here."""

from __future__ import annotations

import flask_mail
import pytest

from tests.support.shop.shop import Shops, message, newsletter

pytestmark = pytest.mark.databases("sqlite")


@pytest.mark.parametrize("domain", ["", "id.shop.example"])
def test_all_ways_to_enqueue_use_it(shops: Shops, domain: str) -> None:
    shop, db = shops.open_flask(OUTBOX_MESSAGE_ID_DOMAIN=domain)
    with shop.app.app_context():
        sender = "shop@shop.example"
        plain = flask_mail.Message("s", sender=sender, recipients=["c@d.example"], body="b")
        attached = flask_mail.Message("s", sender=sender, recipients=["c@d.example"], body="b")
        attached.attach("a.txt", "text/plain", b"x")
        for one in (plain, attached, message("c@d.example")):
            shop.outbox.enqueue(one)
        shop.outbox.enqueue_many(newsletter(), ["e@d.example"])
        shop.outbox.enqueue_many([plain])
        db.session.commit()
    found = [row.message_id for row in shop.rows(shop.tables.email)]
    assert {text.partition("@")[2] for text in found} == {f"{domain or 'shop.example'}>"}
    assert len(found) == 5
