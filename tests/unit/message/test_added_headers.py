"""Auto-Submitted and one-click unsubscription: what is asked for, checked, and written."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Any

import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.header.added_headers import MAX_URL, AddedHeaders, check_url
from outbox.domain.mime.line_endings import has_long_line, header_names

URL = "https://shop.example/unsubscribe?who=a%40x.example&list=news"


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (True, "auto-generated"),
        ("auto-generated", "auto-generated"),
        ("auto-replied", "auto-replied"),
        ("auto-notified", "auto-notified"),
    ],
)
def test_auto_submitted_is_one_of_the_registered_words(given: Any, word: str) -> None:
    assert (
        AddedHeaders.check(auto_submitted=given).common() == f"Auto-Submitted: {word}\r\n".encode()
    )


@pytest.mark.parametrize("given", [None, False])
def test_nothing_asked_for_writes_nothing(given: Any) -> None:
    wishes = AddedHeaders.check(auto_submitted=given)
    assert wishes == AddedHeaders()
    assert wishes.common() + wishes.own("a@x.example") == b""


@pytest.mark.parametrize(
    "given", ["yes", "auto-generated\r\nBcc: e@x.example", "no", 1.5, b"x", []]
)
def test_another_word_is_refused(given: Any) -> None:
    with pytest.raises(InvalidMessage) as caught:
        AddedHeaders.check(auto_submitted=given)
    assert caught.value.field == "auto_submitted"


def test_a_url_makes_the_two_headers_of_rfc_8058() -> None:
    wishes = AddedHeaders.check(unsubscribe=URL)
    assert wishes.common() == b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
    assert wishes.own("a@x.example") == f"List-Unsubscribe: <{URL}>\r\n".encode()


def test_a_function_makes_each_reader_s_url() -> None:
    wishes = AddedHeaders.check(unsubscribe=lambda address: f"https://shop.example/u/{address}")
    assert (
        wishes.own("a@x.example") == b"List-Unsubscribe: <https://shop.example/u/a@x.example>\r\n"
    )
    assert wishes.own("b@x.example") != wishes.own("a@x.example")


@pytest.mark.parametrize(
    "url",
    [
        "http://shop.example/u",
        "mailto:u@shop.example",
        "shop.example/u",
        "https://",
        "https:///u",
        "https://[::1/u",
        "https://shop.example/ü",
        "https://shop.example/a b",
        "https://shop.example/a>,<mailto:evil@x.example",
        "https://shop.example/\r\nBcc: evil@x.example",
        "https://shop.example/u\n",
        'https://shop.example/"',
        "",
        5,
        b"https://shop.example/u",
        "https://shop.example/" + "x" * MAX_URL,
    ],
    ids=ascii,
)
def test_what_is_no_https_url_is_refused_and_not_repeated(url: Any) -> None:
    for ask in (
        lambda: AddedHeaders.check(unsubscribe=url),
        lambda: AddedHeaders.check(unsubscribe=lambda _: url).own("a@x.example"),
    ):
        with pytest.raises(InvalidMessage) as caught:
            ask()
        assert caught.value.field == "unsubscribe"
        assert not isinstance(url, str) or not url or url not in str(caught.value)


MAILTO = "mailto:leave@shop.example?subject=a%40x.example"


@pytest.mark.parametrize("given", [(URL, MAILTO), [MAILTO, URL], (URL,)])
def test_an_address_may_stand_beside_the_url(given: Any) -> None:
    """Readers without one-click write to it (RFC 2369 §3.2); the order is the user's."""
    line = AddedHeaders.check(unsubscribe=given).own("a@x.example")
    assert line == AddedHeaders.check(unsubscribe=lambda _: given).own("a@x.example")
    assert line.replace(b"\r\n ", b" ") == (
        b"List-Unsubscribe: " + ", ".join(f"<{url}>" for url in given).encode() + b"\r\n"
    )
    assert header_names(line) == ["List-Unsubscribe"]


def test_the_longest_url_and_the_longest_address_fit_on_their_lines() -> None:
    pair = (URL.ljust(MAX_URL, "x"), MAILTO.ljust(MAX_URL, "x"))
    assert not has_long_line(AddedHeaders.check(unsubscribe=pair).own("a@x.example"))


@pytest.mark.parametrize(
    "given",
    [
        (),
        (MAILTO,),
        (URL, URL),
        (URL, MAILTO, MAILTO),
        (URL, "mailto:"),
        (URL, "mailto:leave"),
        (URL, "mailto:a@b.example,c@d.example"),
        (URL, "mailto:a@b.example>\r\nBcc: e@x.example"),
        (URL, "mailto:a b@c.example"),
        (URL, "mailto:a%0d%0ab@c.example"),
        (URL, "mailto:j\u00f6@b.example"),
        (URL, "ftp://b.example"),
        (URL, MAILTO.ljust(MAX_URL + 1, "x")),
        (URL, 5),
        {URL: MAILTO},
    ],
    ids=ascii,
)
def test_beside_the_url_only_one_address_may_stand(given: Any) -> None:
    with pytest.raises(InvalidMessage) as caught:
        AddedHeaders.check(unsubscribe=given)
    assert caught.value.field == "unsubscribe"
    with pytest.raises(InvalidMessage):
        AddedHeaders.check(unsubscribe=lambda _: given).own("a@x.example")


def test_the_longest_url_fits_in_one_line() -> None:
    url = "https://shop.example/".ljust(MAX_URL, "x")
    line = AddedHeaders.check(unsubscribe=check_url(url)).own("a@x.example")
    assert header_names(line) == ["List-Unsubscribe"]
    assert not has_long_line(line)


@pytest.mark.parametrize(
    ("name", "asked", "field"),
    [
        ("Auto-Submitted", {"auto_submitted": True}, "auto_submitted"),
        ("List-Unsubscribe", {"unsubscribe": URL}, "unsubscribe"),
        ("list-unsubscribe-post", {"unsubscribe": URL}, "unsubscribe"),
    ],
)
def test_a_header_that_the_message_has_is_not_written_twice(
    name: str, asked: dict[str, Any], field: str
) -> None:
    message = EmailMessage()
    message[name] = "x"
    AddedHeaders().refuse_repeated(message)
    with pytest.raises(InvalidMessage, match="already has this header") as caught:
        AddedHeaders.check(**asked).refuse_repeated(message)
    assert caught.value.field == field
    AddedHeaders.check(**asked).refuse_repeated(EmailMessage())
