"""`OUTBOX_REDIRECT_TO` on the wire: one copy to one address, and the table as if all had it."""

from __future__ import annotations

import pytest

from outbox.store.control.suppression import suppress
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.scripted import AT_RCPT, ScriptedServer, close, expect
from tests.support.servers.smtp.stateful import EXTENSIONS, StatefulServer
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.steps.motion import Motion, halted, server, standing, write

pytestmark = pytest.mark.one_database("mariadb")

DEV = "dev@shop.example"
SENT = ("sent", 1, 0, 0)


@pytest.fixture
def staging(shops: Shops, catcher: Catcher) -> Shop:
    return shops.open(MAIL_PORT=catcher.port, OUTBOX_REDIRECT_TO=DEV)


def enqueue(shop: Shop) -> int:
    mail = message("a@x.example", "b@x.example", Cc="c@x.example", Bcc="d@x.example")
    with shop.session() as session:
        email = shop.outbox.enqueue(mail, session=session)
        session.commit()
    return email.id


def test_one_copy_leaves_and_every_recipient_counts_as_sent(
    staging: Shop, catcher: Catcher
) -> None:
    email = enqueue(staging)
    Motion(shop=staging).beat()
    (mail,) = catcher.emails
    assert mail.recipients == (DEV,)
    own, _, rest = mail.content.partition(b"X-Original-To: d@x.example\r\n")
    assert own.splitlines() == [
        b"X-Outbox-Redirected-To: dev@shop.example",
        b"X-Original-To: a@x.example",
        b"X-Original-To: b@x.example",
        b"X-Original-To: c@x.example",
    ]
    row = staging.email_row(email)
    (content,) = staging.rows(staging.tables.content)
    assert rest == row.headers + content.body, "what follows is the email as it is stored"
    assert int(mail.mail_options[0].removeprefix("SIZE=")) == len(mail.content)
    assert standing(staging) == {SENT: 1}
    assert set(staging.recipients(email).values()) == {"sent"}
    assert len(staging.recipients(email)) == 4


@pytest.mark.parametrize(
    ("reply", "status", "attempts"),
    [
        ("550 5.1.1 no such mailbox", "failed", 1),
        ("450 4.2.0 later", "pending", 1),
        ("421 4.3.2 closing", "pending", 0),
    ],
)
def test_what_befalls_the_address_befalls_every_recipient(
    staging: Shop, catcher: Catcher, reply: str, status: str, attempts: int
) -> None:
    catcher.reply_to_recipient = lambda address: reply if address == DEV else None
    email = enqueue(staging)
    Motion(shop=staging).beat()
    row = staging.email_row(email)
    assert (row.status, row.attempts, catcher.emails) == (status, attempts, ())
    assert set(staging.recipients(email).values()) == {status}
    assert len(staging.recipients(email)) == 4
    if status == "pending":
        catcher.reply_to_recipient = lambda _: None
        staging.later(86_400)
        Motion(shop=staging).beat()
        assert set(staging.recipients(email).values()) == {"sent"}
        assert catcher.copies().total() == 1


@pytest.mark.parametrize("pipelining", [True, False])
def test_no_announced_envelope_names_a_customer(shops: Shops, pipelining: bool) -> None:
    extensions = (*EXTENSIONS, *(["PIPELINING"] if pipelining else []))
    with StatefulServer(extensions=extensions) as smtp:
        shop = shops.open(MAIL_PORT=smtp.port, OUTBOX_REDIRECT_TO=DEV, OUTBOX_WINDOW=3)
        write(shop, 8)
        enqueue(shop)
        shop.enqueue("e@x.example", "f@x.example")
        Motion(shop=shop).beat()
        shop.runtime.disconnect()
        lines = [line for dialogue in smtp.dialogues for line in dialogue.lines]
        assert {line for line in lines if line.startswith("RCPT")} == {f"RCPT TO:<{DEV}>"}
        assert len(smtp.dialogues) == 1
        assert sum(line.startswith("RCPT") for line in lines) == len(smtp.accepted) == 10
        told = [int(line.partition("SIZE=")[2].split()[0]) for line in lines if "SIZE=" in line]
        assert told == [len(mail.content) for mail in smtp.accepted]
        originals = [mail.content.count(b"X-Original-To: ") for mail in smtp.accepted]
    assert sorted(originals) == [1] * 8 + [2, 4]
    assert standing(shop) == {SENT: 10}


def test_a_redirected_email_fails_over_as_any_other(shops: Shops, catcher: Catcher) -> None:
    closing = expect("RCPT", "421 4.3.2 closing")
    with ScriptedServer((*AT_RCPT, closing, close)) as first:
        servers = [server("a", first.port), server("b", catcher.port, order=2)]
        shop = shops.open(OUTBOX_SERVERS=servers, OUTBOX_REDIRECT_TO=DEV)
        email = enqueue(shop)
        Motion(shop=shop).beat()
    assert set(catcher.copies().values()) == {1}
    assert {recipient for recipient, _ in catcher.copies()} == {DEV}
    assert set(shop.recipients(email).values()) == {"sent"}
    assert (standing(shop), halted(shop)) == ({SENT: 1}, {"a"})


def test_one_of_several_that_is_suppressed_is_not_named_as_sent(
    staging: Shop, catcher: Catcher
) -> None:
    staging.database.run(lambda c: suppress(c, staging.database, "b@x.example", "complaint"))
    email = enqueue(staging)
    Motion(shop=staging).beat()
    (mail,) = catcher.emails
    assert b"X-Original-To: b@x.example" not in mail.content
    assert staging.recipients(email)["b@x.example"] == "suppressed"
