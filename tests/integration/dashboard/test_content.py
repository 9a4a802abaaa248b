"""The content of one message: each of its parts is shown, and none of them has any rights."""

from __future__ import annotations

from email import message_from_bytes, policy

import pytest
import sqlalchemy as sa
from flask import Response

from outbox.dashboard import Role
from outbox.dashboard.messages import content
from outbox.flask_ext.previews import inline_images
from tests.integration.dashboard.desk import HOSTILE, HTML, PIXEL, Desk, whole
from tests.support.shop.shop import addresses, message, newsletter

pytestmark = pytest.mark.one_database("sqlite")


@pytest.mark.long
def test_the_content_is_shown_part_by_part(desk: Desk) -> None:
    email_id = desk.enqueue(whole())
    page = desk.get(f"/messages/{email_id}").text
    assert f'src="/outbox/messages/{email_id}/html"' in page
    assert '<iframe sandbox="" ' in page
    assert "1 image or style sheet from elsewhere is not loaded" in page
    assert "inner.eml" in page
    assert "secret body &amp; more" in desk.get(f"/messages/{email_id}", view="text").text
    headers = desk.get(f"/messages/{email_id}", view="headers").text
    assert '<th scope="row">Message-ID</th>' in headers
    assert (
        "Content-Transfer-Encoding: base64" in desk.get(f"/messages/{email_id}", view="source").text
    )
    assert "<iframe" in desk.get(f"/messages/{email_id}", view="nonsense").text


def test_the_html_has_no_rights(desk: Desk) -> None:
    frame = desk.get(f"/messages/{desk.enqueue(whole())}/html")
    assert HOSTILE in frame.text  # as it is: there no script runs
    assert 'src="data:image/png;base64,' in frame.text
    rules = frame.headers["Content-Security-Policy"]
    assert rules.startswith("sandbox; default-src 'none';")
    assert "script" not in rules
    assert "frame-ancestors 'self'" in rules
    assert frame.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert frame.headers["X-DNS-Prefetch-Control"] == "off"
    begins = '<base target="_blank"><meta http-equiv="x-dns-prefetch-control" content="off">'
    assert frame.text.startswith(begins)


def test_the_html_has_a_limit_that_its_images_do_not_pass(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    email_id = desk.enqueue(whole())
    frame, page = f"/messages/{email_id}/html", f"/messages/{email_id}"
    assert "not shown in" not in desk.get(page).text
    monkeypatch.setattr(inline_images, "MOST", len(HTML))
    assert 'src="cid:logo"' in desk.get(frame).text
    assert "An image of the message is not shown in 1 place: with it" in desk.get(page).text


def test_a_policy_of_the_app_gives_a_shown_message_no_rights(desk: Desk) -> None:
    @desk.shop.app.after_request
    def loosen(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = "default-src * 'unsafe-inline'"
        response.headers["X-Frame-Options"] = "DENY"
        response.headers["Cache-Control"] = "public, max-age=3600"
        return response

    email_id = desk.enqueue(whole())
    desk.client = desk.shop.app.test_client()
    frame = desk.get(f"/messages/{email_id}/html").headers
    assert frame["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert frame["X-Frame-Options"] == "SAMEORIGIN"
    assert frame["Cache-Control"] == "no-store"
    page = desk.get("/messages").headers
    assert page["Content-Security-Policy"].startswith("default-src 'none'")
    desk.role = None
    hidden = desk.get("/messages", 404).headers
    assert hidden["Content-Security-Policy"] == "default-src * 'unsafe-inline'"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("März, 5 €.pdf", "filename*=UTF-8''M%C3%A4rz%2C%205%20%E2%82%AC.pdf"),
        ("счёт.pdf", "filename*=UTF-8''%D1%81%D1%87%D1%91%D1%82.pdf"),
        ("a\u202egnp.exe", "filename*=UTF-8''a%E2%80%AEgnp.exe"),
    ],
)
def test_a_file_with_a_name_in_any_script_can_be_kept(desk: Desk, name: str, said: str) -> None:
    mail = message()
    mail.add_attachment(PIXEL, "image", "png", filename=name)
    header = desk.get(f"/messages/{desk.enqueue(mail)}/files/0").headers["Content-Disposition"]
    assert said in header
    header.encode("latin-1")  # WSGI servers refuse any other


_FORWARDED = b"""From: shop@shop.example
To: a@customers.example
Subject: =?utf-7?q?a+2AE-b?=
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=B

--B
Content-Type: text/plain; charset=utf-7

a+2AE-b
--B
Content-Type: application/pdf
Content-Disposition: attachment; filename*=utf-8''%ff.pdf

x
--B--
"""


def test_half_a_character_that_a_stranger_wrote_hides_no_page(desk: Desk) -> None:
    """UTF-8 cannot have a lone surrogate, but a text that was decoded may."""
    email_id = desk.enqueue(message_from_bytes(_FORWARDED))
    page = desk.get(f"/messages/{email_id}", view="text").text
    assert page.count("a?b") >= 3, "title, heading and text"
    for view in ("headers", "source"):
        desk.get(f"/messages/{email_id}", view=view)
    assert desk.get(f"/messages/{email_id}/files/0").data.strip() == b"x"
    desk.role = Role.VIEW
    assert "a?b" in desk.get(f"/messages/{email_id}").text
    desk.get("/messages")


@pytest.mark.long
def test_files_are_kept_and_never_shown(desk: Desk) -> None:
    email_id = desk.enqueue(whole())
    image = desk.get(f"/messages/{email_id}/files/0")
    assert image.data == PIXEL
    assert image.mimetype == "application/octet-stream"
    assert image.headers["Content-Disposition"].startswith("attachment; filename")
    assert "\n" not in image.headers["Content-Disposition"]
    inner = message_from_bytes(desk.get(f"/messages/{email_id}/files/1").data)
    assert inner["Subject"] == "Attached"
    desk.get(f"/messages/{email_id}/files/2", 404)
    octets = desk.get(f"/messages/{email_id}/message.eml").data
    assert octets == desk.shop.outbox.source(email_id)
    assert message_from_bytes(octets, policy=policy.default)["Subject"] == f"Order 1 {HOSTILE}"


def test_a_newsletter_is_shown_as_its_reader_got_it(desk: Desk) -> None:
    with desk.shop.session() as session:
        desk.shop.outbox.enqueue_many(
            newsletter("Dear {{ name }}"),
            addresses(2),
            fields=lambda address: {"name": f"reader {address}"},
            session=session,
        )
        session.commit()
    assert "Dear reader r00001@readers.example" in desk.get("/messages/2").text


def test_a_large_message_is_read_only_when_a_person_asks(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "SHOWN", 10)
    email_id = desk.enqueue(whole())
    page = desk.get(f"/messages/{email_id}").text
    assert "so it is not read for this page" in page
    assert "inner.eml" not in page
    assert "inner.eml" in desk.get(f"/messages/{email_id}", view="text").text


@pytest.mark.long
@pytest.mark.parametrize("view", ["text", "source"])
def test_a_page_shows_the_beginning_of_a_long_text(view: str, desk: Desk) -> None:
    """A text of 10 MB would stall the browser."""
    long = message()
    long.set_content("Thank you.\n" * 20_000 + "The end.\n")
    email_id = desk.enqueue(long)
    page = desk.get(f"/messages/{email_id}", view=view).text
    assert "This is the beginning. The .eml file has all of it." in page
    assert "Thank you." in page
    assert "The end." not in page
    assert b"The end." in desk.get(f"/messages/{email_id}/message.eml").data


@pytest.mark.long
def test_a_content_that_is_damaged_is_said_to_be(desk: Desk) -> None:
    email_id = desk.enqueue(whole())
    with desk.shop.engine.begin() as connection:
        connection.execute(sa.update(desk.shop.tables.content).values(body=b"x"))
    assert (
        "is not there, is damaged, or needs an encryption key"
        in desk.get(f"/messages/{email_id}").text
    )
    desk.get(f"/messages/{email_id}/message.eml", 404)
    assert (
        "is that of no email"
        in desk.post(f"/messages/{email_id}/send-again", f"/messages/{email_id}", 400).text
    )
