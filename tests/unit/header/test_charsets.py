"""No text of anybody's is decoded by Python's codecs for host names, which would take seconds."""

from __future__ import annotations

import email
from base64 import b64encode
from collections.abc import Callable, Iterator
from email import policy
from encodings import idna, punycode
from typing import Any

import flask
import flask_mail
import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.header.charsets import is_for_hosts
from outbox.domain.header.fields import parse_addresses
from outbox.domain.message.merge_fields import refuse_unfilled
from outbox.domain.message.render import render
from outbox.domain.mime.reading import body_text, header_text, parsed
from outbox.domain.search.subject import read_subject
from outbox.flask_ext.messages.convert import standard

_LETTERS = "".join(chr(0x4E00 + number) for number in range(60)).encode("punycode")
WORDS = {
    "punycode": f"=?punycode?b?{b64encode(_LETTERS).decode()}?=",
    "another spelling": f"=?-PunyCode?q?{_LETTERS.decode()}?=",
    "a language": f"=?punycode*en?q?{_LETTERS.decode()}?=",
    "idna": f"=?idna?q?xn--{_LETTERS.decode()}?=",
}


@pytest.fixture(autouse=True)
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Note the length of whatever is handed to these codecs."""
    lengths: list[int] = []

    def noted(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(text: Any, *rest: Any) -> Any:
            lengths.append(len(text))
            return work(text, *rest)

        return call

    for module, name in (
        (punycode, "punycode_decode"),
        (punycode, "punycode_encode"),
        (idna, "ToUnicode"),
    ):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    app = flask.Flask("test")
    flask_mail.Mail(app)
    with app.app_context():
        yield lengths


def rendered(message: Any) -> bytes:
    mail = render(standard(message), send_at=None, max_size=10**8, split_size=10**8)
    return mail.content


@pytest.mark.parametrize("word", WORDS.values(), ids=list(WORDS))
def test_a_subject_that_a_visitor_typed_is_read_as_it_stands(read: list[int], word: str) -> None:
    message = flask_mail.Message(word, ["c@d.example"], "b\n", sender="a@b.example")
    octets = rendered(message)
    assert read_subject(octets) == word
    (raw,) = [raw for name, raw in parsed(octets).raw_items() if name == "Subject"]
    assert header_text("Subject", raw).strip() == word
    assert parsed(octets)["Subject"] == ""
    refuse_unfilled(standard(message))
    assert read == []


@pytest.mark.parametrize("word", WORDS.values(), ids=list(WORDS))
def test_a_parsed_message_with_such_a_header_is_refused(read: list[int], word: str) -> None:
    raw = f"From: a@b.example\nTo: c@d.example\nSubject: {word}\n\nhi\n".encode()
    with pytest.raises(InvalidMessage, match="no charsets"):
        rendered(email.message_from_bytes(raw, policy=policy.default))
    assert read == []


@pytest.mark.parametrize("word", WORDS.values(), ids=list(WORDS))
def test_an_address_with_such_a_name_is_refused(read: list[int], word: str) -> None:
    with pytest.raises(InvalidMessage, match="no charsets"):
        parse_addresses("To", f"{word} <a@b.example>")
    assert read == []


@pytest.mark.parametrize("charset", ["punycode", "IDNA"])
def test_a_text_with_such_a_charset_is_refused_and_shown_without_its_codec(
    read: list[int], charset: str
) -> None:
    head = f"From: a@b.example\nTo: c@d.example\nContent-Type: text/plain; charset={charset}\n"
    raw = f"{head}Content-Transfer-Encoding: 8bit\n\nGrüße-{{{{ name }}}}\n".encode()
    message = email.message_from_bytes(raw)
    refuse_unfilled(message)
    with pytest.raises(InvalidMessage, match="content-type: names idna"):
        rendered(message)
    assert body_text(parsed(raw), "plain") == "Grüße-{{ name }}\n"
    assert read == []


@pytest.mark.parametrize(
    "charset", ["utf-8", "ISO-8859-1", "KOI8-R", "shift_jis", "no-charset", ""]
)
def test_the_others_are_read(charset: str) -> None:
    assert not is_for_hosts(charset)
