"""What the fuzzer of `tests/fuzz` found once, each as a plain example."""

from __future__ import annotations

import email
from email import policy
from email.message import EmailMessage, Message
from pathlib import Path
from typing import Any

import flask_mail
import pytest

from outbox import ConfigurationError, InvalidMessage, Status
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, message
from webapp.app import create_app
from webapp.maildir import Maildir

pytestmark = pytest.mark.one_database("postgresql")

LONG: dict[str, str] = {
    "quotation marks": '"' * 30_000,
    "comments": "()" * 15_000,
    "dots": "a." * 15_000,
    "semicolons": ";" * 30_000,
    "encoded words": "=?utf-8?q?a?= " * 3000,
}


def parsed(name: str, value: str) -> Message[Any, Any]:
    head = f"From: shop@shop.example\nTo: a@x.example\n{name}: {value}\n\nhi\n"
    return email.message_from_string(head, policy=policy.default)


@pytest.mark.databases("sqlite")
@pytest.mark.timeout(20)  # CPython's parser would take minutes
@pytest.mark.parametrize("name", ["Cc", "Reply-To", "Resent-To", "Content-Disposition"])
def test_a_text_too_long_to_be_read_is_refused_at_once(shop: Shop, name: str) -> None:
    for value in LONG.values():
        with shop.session() as session, pytest.raises(InvalidMessage) as caught:
            shop.outbox.enqueue(parsed(name, value), session=session)
        assert caught.value.field.lower() == name.lower()
        assert "characters" in caught.value.rule


@pytest.mark.databases("sqlite")
@pytest.mark.timeout(20)
def test_a_recipient_too_long_to_be_read_is_refused_at_once(shop: Shop) -> None:
    with shop.app.app_context(), shop.session() as session:
        for value in LONG.values():
            mail = flask_mail.Message(recipients=[value], sender="shop@shop.example", body="hi")
            with pytest.raises(InvalidMessage, match=r"^recipients\[0\]: each entry has at most"):
                shop.outbox.enqueue(mail, session=session)


@pytest.mark.databases("sqlite")
@pytest.mark.timeout(20)  # CPython's folding would never end
@pytest.mark.parametrize("length", [41, 60, 80, 800])
@pytest.mark.parametrize("header", ["Content-Type: text/plain", "Content-Disposition: attachment"])
def test_a_parameter_whose_name_leaves_no_room_for_its_value_is_refused(
    shop: Shop, header: str, length: int
) -> None:
    name, kind = header.split(": ")
    strange = "\u00fc" * length
    value = f"{kind}; {strange}*=utf-8''{'%F0%9F%98%80' * 30}"
    with shop.session() as session, pytest.raises(InvalidMessage) as caught:
        shop.outbox.enqueue(parsed(name, value), session=session)
    assert caught.value.field == name
    assert caught.value.rule == "a parameter's name has at most 40 characters"


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("commas", [995, 1500])
def test_commas_of_which_a_fold_would_make_addresses_are_refused(shop: Shop, commas: int) -> None:
    with (
        shop.session() as session,
        pytest.raises(InvalidMessage, match=r"^cc: is not a list of addresses"),
    ):
        shop.outbox.enqueue(parsed("Cc", "," * commas), session=session)


@pytest.mark.databases("sqlite")
def test_a_name_that_fits_no_line_is_encoded_and_names_the_same(shop: Shop) -> None:
    with shop.session() as session:
        mail = shop.outbox.enqueue(parsed("Cc", f"{'n' * 970} <b@x.example>"), session=session)
        session.commit()
    assert shop.email_row(mail.id).recipients == 2


@pytest.mark.databases("sqlite")
@pytest.mark.timeout(20)
def test_a_parameter_of_the_longest_name_is_written(shop: Shop) -> None:
    mail = message("a@x.example")
    long = f"attachment; {'n' * 40}*=utf-8''{'%F0%9F%98%80' * 300}"
    mail.add_attachment(b"x", "application", "zip", filename="\U0001f600" * 300)
    with shop.session() as session:
        shop.outbox.enqueue(parsed("Content-Disposition", long), session=session)
        shop.outbox.enqueue(mail, session=session)
        session.commit()
    assert shop.count(shop.tables.email) == 2


@pytest.mark.databases("sqlite")
def test_a_nul_in_a_body_is_encoded_and_arrives(sending: Shop, catcher: Catcher) -> None:
    mail = message("a@x.example", text="before\0after")
    with sending.session() as session:
        row = sending.outbox.enqueue(mail, session=session)
        session.commit()
    drain(sending.runtime)
    assert sending.status(row.id) is Status.SENT
    content = catcher.emails[0].content
    assert b"\0" not in content
    arrived: EmailMessage = email.message_from_bytes(content, policy=policy.default)
    assert arrived.get_content() == "before\0after\r\n"


@pytest.mark.databases("sqlite")
def test_a_nul_outside_every_part_is_refused(shop: Shop) -> None:
    mail = message("a@x.example")
    mail.add_attachment(b"x", "application", "zip")
    mail.preamble = "\0"
    with shop.session() as session, pytest.raises(InvalidMessage, match="a NUL"):
        shop.outbox.enqueue(mail, session=session)


@pytest.mark.databases("sqlite")
def test_no_command_prints_an_address_that_steers_the_terminal(shop: Shop) -> None:
    run = shop.app.test_cli_runner()
    strange = "a\u202eb@x.example"
    shop.enqueue(strange)
    shop.enqueue(strange, "c@x.example")
    run.invoke(args=["outbox", "suppress", strange])
    for words in (["list"], ["show", "1"], ["show", "2"], ["suppress"]):
        said = run.invoke(args=["outbox", *words]).output
        assert "a\ufffdb@x.example" in said
        assert "\u202e" not in said


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    "words",
    [["cancel", "--key", "\udcff"], ["cancel", "--tag", "\udcff"], ["list", "--tag", "\udcff"],
     ["suppress", "a@x.example", "--reason", "\udcff"], ["cancel", "--key", "k" * 256]],
)  # fmt: skip
def test_octets_that_are_no_text_are_a_wrong_call(shop: Shop, words: list[str]) -> None:
    result = shop.app.test_cli_runner().invoke(args=["outbox", *words])
    assert result.exit_code == 2
    assert "must" in result.output


@pytest.mark.parametrize(
    "which", [{"key": "a\0"}, {"tag": "\udcff"}, {"id": "1"}, {"id": 2**63}, {"id": True}]
)
def test_a_cancel_of_what_no_email_can_have_leaves_the_transaction_usable(
    shop: Shop, which: dict[str, Any]
) -> None:
    with shop.session() as session:
        shop.order(session)
        with pytest.raises(InvalidMessage) as caught:
            shop.outbox.cancel(session=session, **which)
        session.commit()
    assert [caught.value.field] == list(which)
    assert shop.count(shop.orders) == 1


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"OUTBOX_LEASE": 10**400}, "OUTBOX_LEASE must be at most 86400"),
        ({"OUTBOX_SLOTS": 10**400}, "OUTBOX_SLOTS must be at most 2147483647"),
        ({"OUTBOX_RETENTION": float("inf")}, "OUTBOX_RETENTION must be at most 2147483647"),
        ({"OUTBOX_RETENTION": 1e300}, "OUTBOX_RETENTION must be at most 2147483647"),
        ({"MAIL_SERVER": ["a", "b"]}, "MAIL_SERVER must be text"),
        ({"MAIL_SERVER": "\ud800"}, "MAIL_SERVER must be a host"),
        ({"MAIL_SERVER": "x" * 256}, "MAIL_SERVER must be a host"),
        ({"MAIL_USERNAME": 5}, "MAIL_USERNAME must be text"),
        ({"MAIL_PASSWORD": b"x"}, "MAIL_PASSWORD must be text"),
    ],
)
def test_a_setting_that_nothing_can_work_with_is_told_at_the_start(
    shops: Shops, config: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        shops.open(**config)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("name", ["J\u00f6, B", "j\u00f6 <evil@x.example>, ", "j\u00f6@x.example"])
def test_beside_an_international_address_a_name_is_read_as_a_name(
    sending: Shop, catcher: Catcher, name: str
) -> None:
    """CPython writes it in UTF-8 then, without its quotes: a reply would go to somebody else."""
    to = [("", "j\u00f6@x.example"), (name, "a@x.example")]
    mail = flask_mail.Message(
        recipients=[to[0][1], to[1]],
        sender="shop@shop.example",
        body="hi",
        reply_to=(name, "r@x.example"),
        extra_headers={"X-Long": "word " * 40},
    )
    with sending.app.app_context(), sending.session() as session:
        sending.outbox.enqueue(mail, session=session)
        session.commit()
    drain(sending.runtime)
    text = catcher.emails[0].content.decode()
    arrived: Any = email.message_from_string(text, policy=policy.default)
    assert [(a.display_name, a.addr_spec) for a in arrived["To"].addresses] == to
    reply_to = [(a.display_name, a.addr_spec) for a in arrived["Reply-To"].addresses]
    assert reply_to == [(name, "r@x.example")]
    assert arrived["X-Long"].split() == ["word"] * 40


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_the_inbox_shows_the_source_of_what_no_parser_can_read(
    database_url: str, tmp_path: Path
) -> None:
    config = {
        "SECRET_KEY": "for this test only",
        "SQLALCHEMY_DATABASE_URI": database_url,
        "DEMO_INBOX": str(tmp_path),
    }
    client, maildir = create_app(config).test_client(), Maildir(tmp_path)
    for header in ("From: " + "(" * 900, "Content-Type: " + "(" * 900, "From: a:b:"):
        name = maildir.add(f"{header}\r\n\r\nhi".encode())
        assert client.get("/inbox").status_code == 200
        assert header[:60] in client.get(f"/inbox/{name}?view=source").text


@pytest.mark.databases("sqlite")
def test_an_encoded_word_in_an_address_is_refused(shop: Shop) -> None:
    """Some readers decode it there too: the header would name somebody else than the envelope."""
    news = EmailMessage()
    news["From"] = "shop@shop.example"
    news.set_content("New ink!")
    with shop.session() as session, pytest.raises(InvalidMessage, match="an encoded word"):
        shop.outbox.enqueue_many(news, ["=?x?q?b=40c.example?=a@x.example"], session=session)
