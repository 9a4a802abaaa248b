"""What a preview warns of: each warning has a message that brings it, and one that does not."""

from __future__ import annotations

from collections.abc import Callable
from email.message import EmailMessage
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.flask_ext.previews.html_survey import survey
from outbox.flask_ext.previews.shown import ShownEmail
from outbox.flask_ext.previews.warnings import CLIPPED, HEAVY, warnings_of

GOOD = (
    '<p>Hello</p><img src="https://shop.example/a.png" alt=""><a href="https://shop.example">x</a>'
)
PNG = b"\x89PNG"


def shown(
    html: str | None = GOOD,
    *,
    text: str | None = "Hello",
    subject: str = "Your order",
    is_bulk: bool = False,
    image: str | None = None,
    **headers: str,
) -> ShownEmail:
    message = EmailMessage()
    message["Subject"], message["To"] = subject, "ada@x.example"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    if text is not None:
        message.set_content(text)
    if html is not None and text is not None:
        message.add_alternative(html, subtype="html")
    elif html is not None:
        message.set_content(html, subtype="html")
    if image is not None:
        message.add_attachment(PNG, "image", "png", filename="a.png", cid=f"<{image}>")
    return ShownEmail(
        octets=message.as_bytes(),
        envelope_from="shop@shop.example",
        recipients=("ada@x.example",),
        is_bulk=is_bulk,
    )


def told(email: ShownEmail) -> list[str]:
    return [
        " ".join([warning.text, *warning.places])
        for warning in warnings_of(email, "127.0.0.1:5000")
    ]


CASES = {
    "There is no subject": shown(subject=" "),
    "no text part": shown(text=None),
    "neither a text nor an HTML": shown(None, text=None),
    "Bulk without List-Unsubscribe": shown(is_bulk=True),
    "A placeholder was not filled in. {{ name }}": shown("<p>Hello {{ name }}</p>"),
    "A placeholder was not filled in. {% if %}": shown(subject="News {% if %}"),
    "An image has no alt": shown('<img src="https://shop.example/a.png">'),
    "named by cid: and is not in the message. logo": shown('<img src="cid:logo" alt="">'),
    "An image is a data: URL": shown('<img src="data:image/png;base64,AA" alt="">'),
    "A URL is relative: an email has no page that it could belong to. /a": shown(
        '<a href="/a">x</a>'
    ),
    "that it could belong to. b.png": shown("<td style=\"background: url('b.png')\">"),
    "that it could belong to. c.png": shown('<table background="c.png">'),
    "begins with http: and is not encrypted. http://x.example/": shown(
        '<a href="http://x.example/">x</a>'
    ),
    "readers cannot reach. https://localhost/a": shown('<a href="https://localhost/a">x</a>'),
    "readers cannot reach. https://10.0.0.7/": shown('<a href="https://10.0.0.7/">x</a>'),
    "A link leads nowhere. Pay": shown('<a href="#">Pay</a>'),
    "A link has no text": shown(
        '<a href="https://x.example/"><img src="cid:a" alt=""></a>', image="a"
    ),
    "The HTML has 103 KB: Gmail clips it": shown("<p>" + "x" * (CLIPPED + 1024) + "</p>"),
    "A style sheet is loaded from elsewhere": shown(
        '<link rel="stylesheet" href="https://x/a.css">'
    ),
    "Write it into the email. @import": shown(
        "<style>@import url(https://x.example/a.css);</style>"
    ),
    "do not run it. <form> <script>": shown("<form></form><script>1</script>"),
    "Mail programs run no scripts. onclick": shown('<p onclick="x()">x</p>'),
    "Mail programs run no scripts. javascript:x()": shown('<a href="javascript:x()">x</a>'),
}


@pytest.mark.parametrize("wanted", CASES)
def test_each_fault_brings_its_warning(wanted: str) -> None:
    found = told(CASES[wanted])
    assert any(wanted in text for text in found), found


@pytest.mark.long
def test_an_email_over_25_megabytes_is_told() -> None:
    email = shown()
    heavy = ShownEmail(
        octets=email.octets + b"x" * HEAVY, envelope_from="<>", recipients=(), is_bulk=False
    )
    assert any("over 25 MB" in text for text in told(heavy))
    assert not any("over 25 MB" in text for text in told(email))


@pytest.mark.parametrize(
    "email",
    [
        shown(),
        shown(None),
        shown('<img src="cid:logo" alt="Shop">', image="logo"),
        shown('<a href="http://127.0.0.1:5000/orders/7">Your order</a>'),  # made in development
        shown('<a href="mailto:help@shop.example">Help</a><a href="tel:+49">Call</a>'),
        shown('<a href="https://x.example/"><img src="https://x.example/a.png" alt="Home"></a>'),
        shown('<a href="#top">Up</a>'),
        shown("<style>@font-face { src: url(x.woff) } p { color: red }</style><p>x</p>"),
        shown(is_bulk=True, List_Unsubscribe="<https://shop.example/u>"),
    ],
)
def test_a_good_email_brings_none(email: ShownEmail) -> None:
    assert told(email) == []


def test_a_warning_names_three_places_and_counts_the_others() -> None:
    html = "".join(f'<a href="/{number}">x</a>' for number in [1, 1, 2, 3, 4, 5])
    (warning,) = warnings_of(shown(html), "x")
    assert (warning.places, warning.more) == (("/1", "/2", "/3"), 2)


@given(st.text(alphabet="<>!-[]/=\"' aimgscriptyle{}%&;:#\x00\n"))
def test_whatever_the_html_is_it_is_read(html: str) -> None:
    assert survey(html).links is not None
    assert isinstance(told(shown(html.replace("\x00", ""))), list)


@pytest.mark.parametrize(
    "html",
    ["<![foo[", "<!doctype [", "<a href='x", "<![if !mso]>x<![endif]>", f"&#{'9' * 5000};"],
    ids=lambda html: html[:20],
)
def test_a_broken_declaration_is_read_as_far_as_it_goes(html: str) -> None:
    assert survey(f"<img src=a.png>{html}").without_alt == ["a.png"]


@pytest.mark.parametrize("part", ["<a ", "<a/", "<a x='", '<a x="', "<!--", "<!", "<?", "</a "])
def test_what_never_ends_is_read_once(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read on from each "<" to the end would take minutes for a message of a megabyte."""
    unfinished: list[str] = []

    def counted(name: str) -> Callable[[HTMLParser, int], int]:
        read: Callable[[HTMLParser, int], int] = getattr(HTMLParser, name)

        def reads(parser: HTMLParser, place: int) -> int:
            end = read(parser, place)
            if end < 0:
                unfinished.append(name)
            return end

        return reads

    for kind in ("starttag", "endtag", "comment", "html_declaration", "pi"):
        monkeypatch.setattr(HTMLParser, f"parse_{kind}", counted(f"parse_{kind}"))
    assert survey(GOOD * 100 + part * 100) == survey(GOOD * 100)
    assert len(survey(GOOD * 100).links) == 100
    assert len(unfinished) == 1
