"""The pages at `/outbox/previews` show a message as it would be sent, and what is wrong with it."""

from __future__ import annotations

import re
from email import message_from_bytes, policy
from html import unescape

import pytest
from flask import url_for
from flask_mail import Message
from werkzeug.test import TestResponse

from outbox.flask_ext.previews import inline_images
from outbox.testing import OutboxTester
from tests.support.shop.shop import message, newsletter

from .site import HOSTILE, Site, order_confirmation


def frame_of(page: TestResponse) -> str:
    """Return the HTML in the frame."""
    found = re.search(r'<iframe sandbox [^>]*srcdoc="([^"]*)"></iframe>', page.text)
    assert found
    return unescape(found[1])


@pytest.mark.long
def test_the_page_shows_the_message_as_it_would_be_enqueued(site: Site) -> None:
    page = site.show(order_confirmation)
    assert page.status_code == 200
    for shown in (
        "Käse &amp; Co", "ada@x.example", "desk@shop.example", "Sent with each order.",
        "<pre>Thank you &amp; bye</pre>", "logo.png", "(image/png,",
        '<th scope="row">Message-ID</th>',
    ):  # fmt: skip
        assert shown in page.text, shown
    assert "And no more" not in page.text
    octets = site.get("/one.eml")
    assert octets.mimetype == "message/rfc822"
    assert octets.headers["Content-Disposition"] == "attachment; filename=one.eml"
    app = site.app()
    with app.app_context(), OutboxTester(app) as tester:
        site.outbox.enqueue(order_confirmation())
        enqueued = tester.assert_enqueued()
    parsed = message_from_bytes(octets.data, policy=policy.default)
    volatile = {"Message-ID", "Date"}
    assert [item for item in parsed.items() if item[0] not in volatile] == [
        item for item in enqueued.message.items() if item[0] not in volatile
    ]
    assert octets.data.partition(b"\r\n\r\n")[2] == enqueued.octets.partition(b"\r\n\r\n")[2]


def test_what_a_message_has_is_escaped_and_its_html_is_in_a_frame_without_rights(
    site: Site,
) -> None:
    page = site.show(order_confirmation)
    assert HOSTILE not in page.text
    framed = frame_of(page)
    assert framed.startswith("<meta http-equiv=")
    assert framed.endswith(HOSTILE)  # as it is: there no script runs
    assert '<img src="data:image/png;base64,iVBORw==" alt="Shop">' in framed
    assert '<img src="cid:gone" alt="">' in framed
    assert "images are not shown" not in page.text
    rules = page.headers["Content-Security-Policy"]
    assert rules.startswith("default-src 'none'; img-src data:;")
    assert "script-src" not in rules
    assert page.headers["Cache-Control"] == "no-store"


def test_images_that_would_make_the_page_too_large_are_left_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline_images, "MOST", 0)
    page = site.show(order_confirmation)
    assert '<img src="cid:logo" alt="Shop">' in frame_of(page)
    assert "<p>Some images are not shown:" in page.text


def test_a_newsletter_is_filled_in_for_its_reader(site: Site) -> None:
    def news() -> Message:
        text = "Hello {{ name }}"
        html = "<p>Hello {{ name }}</p>"
        return Message("News for {{ name }}", body=text, html=html, sender="shop@shop.example")

    page = site.show(
        news,
        to=("Ada", "ada@x.example"),
        fields=lambda address: {"name": f"{address} & Co"},
        unsubscribe=lambda address: f"https://shop.example/leave/{address}",
    )
    assert "<pre>Hello ada@x.example &amp; Co</pre>" in page.text
    assert "<p>Hello ada@x.example &amp; Co</p>" in frame_of(page)
    assert "News for ada@x.example &amp; Co" in page.text
    assert "&lt;https://shop.example/leave/ada@x.example&gt;" in page.text
    assert "No warnings." in page.text
    assert "Bulk without" in Site().show(newsletter, to="ada@x.example").text


def test_a_standard_message_and_the_options_of_enqueue(site: Site) -> None:
    page = site.show(
        message,
        auto_submitted=True,
        envelope_from="<>",
        unsubscribe="https://shop.example/leave",
    )
    assert '<th scope="row">Auto-Submitted</th><td>auto-generated</td>' in page.text
    assert "<dt>Bounces</dt><dd>&lt;&gt;</dd>" in page.text
    assert "<pre>Thank you.\n</pre>" in page.text
    assert "<iframe" not in page.text
    page = Site(OUTBOX_ENVELOPE_FROM="bounces@shop.example").show(message)
    assert "<dt>Bounces</dt><dd>bounces@shop.example</dd>" in page.text


def test_the_function_may_be_a_coroutine_and_use_the_request(site: Site) -> None:
    async def link() -> Message:
        url = url_for("outbox_previews.index", _external=True)
        return Message("Link", ["a@x.example"], html=f'<a href="{url}">x</a>', sender="s@x.example")

    page = site.show(link)
    assert "http://localhost/outbox/previews" in page.text
    assert "cannot reach" not in page.text  # the link is this server's own


@pytest.mark.long
def test_a_broken_function_shows_its_error_and_the_list_stands(site: Site) -> None:
    @site.outbox.preview("Broken")
    def broken() -> Message:
        raise RuntimeError(f"no such order {HOSTILE}")

    page = site.show(lambda: Message("No recipient", body="x"))
    assert page.status_code == 500
    assert "InvalidMessage: " in page.text
    page = site.get("/broken")
    assert page.status_code == 500
    assert "RuntimeError: no such order &lt;script&gt;" in page.text
    assert "in broken\n" in page.text  # the traceback
    page = site.get()
    assert page.status_code == 200
    assert page.text.count("test_pages.") == 2
    assert site.get("/").status_code == 200
    site.config |= {"DEBUG": False, "OUTBOX_PREVIEWS": True}
    page = site.get("/broken")
    assert "RuntimeError: no such order" in page.text
    assert "Traceback" not in page.text
    assert site.get("/broken.eml").status_code == 500
    assert site.get("/other").status_code == 404


@pytest.mark.parametrize("given", [None, "text", 7])
def test_what_is_no_message_is_told(site: Site, given: object) -> None:
    page = site.show(lambda: given)
    assert page.status_code == 500
    assert "message" in page.text
