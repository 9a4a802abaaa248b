"""Where the drop-in differs from Flask-Mail on purpose: each test names one thing, and why."""

from __future__ import annotations

import email
import smtplib
from email import policy
from typing import Any

import flask_mail
import pytest

from outbox import InvalidMessage, OutboxMail
from tests.integration.dropin.conftest import Both, attachment, options, parsed, parts
from tests.support.servers.smtp.catcher import CaughtMail

pytestmark = pytest.mark.one_database("mariadb")


def only(arrived: tuple[CaughtMail, ...]) -> CaughtMail:
    (mail,) = arrived
    return mail


def test_each_recipient_is_asked_once_and_in_order(both: Both) -> None:
    """Flask-Mail asks in the order of a set, and twice for one address under two names."""
    theirs, ours = both.send(
        recipients=["z@x.example", ("Zoe", "z@x.example")], cc=["a@x.example"], bcc=["m@x.example"]
    )
    assert sorted(theirs.recipients) == sorted(["z@x.example", *ours.recipients])
    assert ours.recipients == ("z@x.example", "a@x.example", "m@x.example")


def test_a_header_with_a_line_break_is_refused(both: Both) -> None:
    """Trap 8: Flask-Mail writes a header of the attacker's choice."""
    message = both.message(extra_headers={"X-A": "ok\r\nBcc: evil@evil.example"})
    both.theirs(message)
    assert parsed(only(both.catcher.emails))["Bcc"] == "evil@evil.example"
    with pytest.raises(InvalidMessage, match="extra_headers"):
        both.ours(message)


def test_no_line_is_over_998_octets(both: Both) -> None:
    """Trap 9: Flask-Mail leaves a long ASCII line as it is, and the server refuses it."""
    message = both.message(body="x" * 3000)
    with pytest.raises(smtplib.SMTPDataError, match="Line too long"):
        both.theirs(message)
    both.ours(message)
    mail = only(both.catcher.emails)
    assert max(map(len, mail.content.split(b"\r\n"))) <= 998
    assert parsed(mail).get_payload(decode=True) == b"x" * 3000 + b"\r\n"


@pytest.mark.long
def test_a_long_url_in_a_header_stays_one(both: Both) -> None:
    """Flask-Mail's policy makes encoded words of it, which no receiver decodes in a URL."""
    url = "<https://shop.example/unsubscribe/" + "a" * 100 + ">"
    theirs, ours = both.send(extra_headers={"List-Unsubscribe": url})
    assert "=?utf-8?" in parsed(theirs)["List-Unsubscribe"]
    assert parsed(ours)["List-Unsubscribe"] == url


def test_a_text_as_attachment_keeps_its_characters(both: Both) -> None:
    """Trap 11: Flask-Mail writes a literal \\u20ac."""
    given = {"attachments": [attachment("a.txt", "text/plain", "5 €")]}
    theirs, ours = both.send(**given)
    assert parts(theirs)[-1][-1] == rb"5 \u20ac"
    assert parts(ours)[-1][-1] == "5 €".encode()


def test_a_message_as_attachment_is_no_base64(both: Both) -> None:
    """RFC 2046 §5.2.1 forbids it: Flask-Mail's base64 is taken for the message."""
    inner = "Subject: The first\r\n\r\nMay I have two?"
    theirs, ours = both.send(attachments=[attachment("a.eml", "message/rfc822", inner)])
    shown = [list(parsed(mail).walk())[-1] for mail in (theirs, ours)]
    assert [part["Subject"] for part in shown] == [None, "The first"]
    assert str(shown[0].get_payload()).startswith("U3ViamVjd")


def test_a_local_part_outside_of_ascii_goes_out_with_smtputf8(both: Both) -> None:
    """Trap 11: Flask-Mail raises in the middle of the request."""
    message = both.message(recipients=["jö@x.example"])
    with pytest.raises(UnicodeEncodeError):
        both.theirs(message)
    both.ours(message)
    mail = only(both.catcher.emails)
    assert mail.recipients == ("jö@x.example",)
    assert "SMTPUTF8" in mail.mail_options


def test_an_extra_header_outside_of_ascii_is_encoded(both: Both) -> None:
    """Flask-Mail raises, or leaves raw octets, as Python's version has it."""
    both.ours(both.message(extra_headers={"X-Text": "Grüße", "Comments": "plain"}))
    mail = only(both.catcher.emails)
    head = mail.content.partition(b"\r\n\r\n")[0]
    assert head.isascii()
    assert email.message_from_bytes(mail.content, policy=policy.default)["X-Text"] == "Grüße"


def test_an_international_domain_with_a_sharp_s_is_the_one_that_browsers_open(both: Both) -> None:
    """Flask-Mail's IDNA 2003 writes to strasse.example, which is somebody else's."""
    theirs, ours = both.send(recipients=["a@straße.example"])
    assert theirs.recipients == ("a@strasse.example",)
    assert ours.recipients == ("a@xn--strae-oqa.example",)


def test_bare_line_ends_leave_as_crlf(both: Both) -> None:
    """Trap 12: Flask-Mail hands on bare LF and CR of bytes; servers read them differently."""
    theirs, ours = both.send(body="a\n.\nb\r.\rc")
    assert parsed(ours).get_payload(decode=True) == b"a\r\n.\r\nb\r\n.\r\nc\r\n"
    assert parts(theirs)[0][:-1] == parts(ours)[0][:-1]


def test_html_alone_has_no_empty_text_beside_it(both: Both) -> None:
    """Spam filters count the empty text that Flask-Mail writes."""
    theirs, ours = both.send(html="<p>hello</p>", body=None)
    assert [part.get_payload() for part in parsed(theirs).walk()][2] == ""
    assert parsed(ours).get_content_type() == "text/html"
    assert parsed(ours).get_payload(decode=True) == b"<p>hello</p>\r\n"


def test_an_email_with_bcc_alone_has_no_empty_to(both: Both) -> None:
    """RFC 5322 §3.6.3: a To names somebody; Flask-Mail writes an empty one."""
    theirs, ours = both.send(recipients=[], bcc=["b@x.example"])
    assert parsed(theirs)["To"] == ""
    assert parsed(ours)["To"] is None


def test_to_has_the_order_of_the_message(both: Both) -> None:
    """Trap 10: Flask-Mail's To passes through a set."""
    given = [f"r{n}@x.example" for n in range(30, 0, -1)]
    theirs, ours = both.send(recipients=given)
    read = [str(parsed(mail)["To"]).replace("\r\n", "").split(", ") for mail in (theirs, ours)]
    assert sorted(read[0]) == sorted(given)
    assert read[1] == given


@pytest.mark.parametrize("name", ["Shop, Inc.", "Shop (Berlin)", "Shop: News"])
def test_the_sender_s_name_is_quoted(both: Both, name: str) -> None:
    """Flask-Mail joins name and address without quotes, and then parses what that gives."""
    both.ours(both.message(sender=(name, "shop@shop.example")))
    mail = only(both.catcher.emails)
    sender = email.message_from_bytes(mail.content, policy=policy.default)["From"].addresses[0]
    assert (sender.display_name, sender.addr_spec) == (name, "shop@shop.example")
    assert mail.sender == "shop@shop.example"


def test_an_id_of_the_program_s_own_takes_the_place_of_flask_mail_s(both: Both) -> None:
    """Flask-Mail writes both, and large receivers refuse an email with two (RFC 5322 §3.6)."""
    given = {"Message-ID": "<own@shop.example>", "Date": "Mon, 04 May 2026 12:00:00 +0000"}
    theirs, ours = both.send(extra_headers=given)
    for name, value in given.items():
        assert len(parsed(theirs).get_all(name, [])) == 2
        assert parsed(ours).get_all(name) == [value]


def test_msgid_is_the_message_id_of_the_email(both: Both) -> None:
    """The outbox's Message-ID has the sender's domain, and Flask-Mail's this host's name."""
    seen: list[str] = []

    def note(_: Any, message: flask_mail.Message) -> None:
        seen.append(message.msgId)

    with flask_mail.email_dispatched.connected_to(note):
        for given in ({}, {"extra_headers": {"Message-ID": "<own@shop.example>"}}):
            message = both.message(**given)
            both.ours(message)
            seen.append(message.msgId)
    ids = [parsed(mail)["Message-ID"] for mail in both.catcher.emails]
    assert seen == [ids[0], ids[0], ids[1], ids[1]]
    assert ids[0].endswith("@shop.example>")
    assert ids[1] == "<own@shop.example>"


def test_a_mime_version_of_the_program_s_own_is_not_a_second_one(both: Both) -> None:
    """Flask-Mail writes both (RFC 2045 §4: one)."""
    theirs, ours = both.send(extra_headers={"Mime-version": "1.0 (by the shop)"})
    assert parsed(theirs).get_all("MIME-Version") == ["1.0", "1.0 (by the shop)"]
    assert parsed(ours).get_all("MIME-Version") == ["1.0 (by the shop)"]


@pytest.mark.parametrize(
    ("name", "value"), [("Content-Type", "text/html"), ("content-transfer-encoding", "8bit")]
)
def test_a_second_header_of_the_body_is_refused(both: Both, name: str, value: str) -> None:
    """Flask-Mail writes both, and a reader takes one of them."""
    message = both.message(extra_headers={name: value})
    both.theirs(message)
    assert len(parsed(only(both.catcher.emails)).get_all(name, [])) == 2
    with pytest.raises(InvalidMessage, match=r"extra_headers: .* is the body's"):
        both.ours(message)


def test_a_header_without_a_value_is_refused(both: Both) -> None:
    """Flask-Mail refuses it, too, though with an AttributeError."""
    message = both.message(extra_headers={"X-A": None})
    with pytest.raises(AttributeError):
        both.theirs(message)
    with pytest.raises(InvalidMessage, match="the value of X-A must be text"):
        both.ours(message)


@pytest.mark.parametrize("sender", [("A", None), ("A", b"a@x.example")])
def test_an_envelope_sender_that_is_no_text_is_refused(both: Both, sender: Any) -> None:
    """Flask-Mail refuses it, too, though not by its name: a None has no method encode."""
    message = both.message()
    theirs, ours = flask_mail.Mail(both.plain), OutboxMail(both.shop.app)
    with (
        both.plain.app_context(),
        theirs.connect() as connection,
        pytest.raises((AttributeError, TypeError)),
    ):
        connection.send(message, envelope_from=sender)
    with (
        both.shop.app.app_context(),
        ours.connect() as connection,
        pytest.raises(InvalidMessage, match="envelope_from"),
    ):
        connection.send(message, envelope_from=sender)


@pytest.mark.parametrize("name", ["From", "To", "Cc", "Bcc"])
def test_people_are_not_named_in_extra_headers(both: Both, name: str) -> None:
    """Flask-Mail writes the header twice, a Bcc for all to see, and writes to none of them."""
    message = both.message(extra_headers={name: "x@x.example"})
    both.theirs(message)
    arrived = only(both.catcher.emails)
    assert "x@x.example" in parsed(arrived).get_all(name, [])
    assert arrived.recipients == ("ada@x.example",)
    with pytest.raises(InvalidMessage, match="extra_headers"):
        both.ours(message)


def test_an_option_of_an_extension_that_is_not_offered_is_left_out(both: Both) -> None:
    """Flask-Mail sends it, and the server refuses the email."""
    both.catcher.dsn = False
    message = both.message(mail_options=["RET=HDRS"], rcpt_options=["NOTIFY=NEVER"])
    with pytest.raises((smtplib.SMTPSenderRefused, smtplib.SMTPRecipientsRefused)):
        both.theirs(message)
    both.ours(message)
    mail = only(both.catcher.emails)
    assert (options(mail), mail.rcpt_options) == ([], ())


@pytest.mark.long
def test_a_text_outside_of_ascii_needs_no_server_with_8bitmime(both: Both) -> None:
    """RFC 6152 §3: eight bits that are not announced a server may take for 7 bits."""
    theirs, ours = both.send(body="Grüße\n")
    assert ours.content.isascii()
    assert not theirs.content.isascii()
    assert "BODY=8BITMIME" not in theirs.mail_options
    assert parsed(ours).get_payload(decode=True) == parsed(theirs).get_payload(decode=True)
