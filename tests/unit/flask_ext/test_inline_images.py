"""The images of a message are put into its HTML, and never make it longer than a limit."""

from __future__ import annotations

import re
from email.message import EmailMessage

import pytest

from outbox.domain.config.settings import Settings
from outbox.flask_ext.previews import inline_images
from outbox.flask_ext.previews.shown import ShownEmail

IMAGE = b"x" * 3000


def shown(html: str) -> ShownEmail:
    message = EmailMessage()
    message.set_content(html, subtype="html", charset="utf-8", cte="base64")
    message.add_attachment(IMAGE, "image", "png", cid="<logo@shop.example>")
    message.add_attachment(b"", "image", "png", cid="<dot>")
    return ShownEmail(octets=message.as_bytes(), envelope_from="<>", recipients=(), is_bulk=False)


def test_an_image_that_is_named_thousands_of_times_fills_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inline_images, "MOST", 100_000)
    html = '<img src="cid:logo@shop.example">' * 1000
    found = shown(html).framed
    put_in = found.html.count('<img src="data:image/png;base64,')
    assert 90_000 < len(found.html) <= 100_000
    assert put_in > 10
    assert (found.html.count("<img src="), found.left_out) == (1000, 1000 - put_in)
    assert found.html.endswith('<img src="cid:logo@shop.example">\n')


def test_a_message_that_has_each_image_once_is_shown_whole() -> None:
    html = (
        '<p>1</p><img src="CID:logo%40shop.example"><img src="cid:gone">'
        "<td style=\"background: url('cid:dot')\">2</td>"
    )
    found = shown(html).framed
    assert found.left_out == 0
    assert found.html.startswith('<p>1</p><img src="data:image/png;base64,eHh4')
    assert found.html.endswith(
        '"><img src="cid:gone"><td style="background: url(\'data:image/png;base64,\')">2</td>\n'
    )


def test_what_is_longer_than_the_limit_by_itself_gets_no_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inline_images, "MOST", 100)
    html = '<img src="cid:logo@shop.example">' * 4 + "\n"
    assert shown(html).framed == (html, 4)


@pytest.mark.parametrize(
    "element",
    [
        '<link rel="preconnect" href="https://ada.tracker.example">',
        "<LINK/rel=dns-prefetch\nhref=//ada.tracker.example>",
        '<iframe src="https://ada.tracker.example"></iframe>',
        '<iframe\fsrcdoc="&lt;link rel=preconnect href=//ada.tracker.example&gt;"></iframe>',
        '<frameset><frame src="https://ada.tracker.example"></frameset>',
    ],
)
def test_what_would_connect_to_another_host_is_no_such_element(element: str) -> None:
    html = shown(f"<p>1</p>{element}<linked>2</linked>").framed.html.lower()
    assert "<p>1</p>" in html
    assert "<linked>2</linked>" in html
    assert not re.search(r"<(link|iframe|frame)[\s/>]", html)


def test_an_image_of_an_odd_type_brings_no_element_that_connects() -> None:
    octets = (
        b"Content-Type: multipart/related; boundary=x\r\n\r\n--x\r\nContent-Type: text/html\r\n\r\n"
        b'<img src="cid:dot">\r\n--x\r\n'
        b'Content-Type: image/"><link rel=preconnect href=\\\\a.example>'
        b"\r\nContent-ID: <dot>\r\n\r\nx\r\n--x--\r\n"
    )
    email = ShownEmail(octets=octets, envelope_from="<>", recipients=(), is_bulk=False)
    assert '<img src="data:image/"><inert-link rel=preconnect' in email.framed.html


def test_the_limit_has_room_for_every_message_of_the_largest_size() -> None:
    assert Settings().max_size < inline_images.MOST
