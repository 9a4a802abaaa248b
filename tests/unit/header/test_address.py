"""What an address of the envelope may be."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.transaction import Envelope
from outbox.domain.errors import InvalidMessage
from outbox.domain.header.address import (
    CONTROL,
    MAX_ADDRESS,
    check_address,
    domain_of,
    id_domain,
    spellings,
    suppression_key,
)
from outbox.smtp.command import mail_line, rcpt_lines

CONTROLS = [
    "\r", "\n", "\r\n", "\0", "\t", "\x07", "\x1b", "\x7f", "\x85", "\x9f", "\u2028", "\u2029",
    "\ud800", "\udcff",
]  # fmt: skip


@pytest.mark.matrix
@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
@pytest.mark.parametrize("address", ["{}a@b.example", "a{}b@c.example", "a@b{}.example", "a@b.c{}"])
def test_an_address_with_a_control_character_is_refused(address: str, control: str) -> None:
    with pytest.raises(InvalidMessage, match="control characters") as caught:
        check_address(address.format(control), "bcc")
    assert caught.value.field == "bcc"
    assert "example" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        (None, "must be text"),
        (b"a@b.example", "must be text"),
        (5, "must be text"),
        ("", "local-part@domain"),
        ("a", "local-part@domain"),
        ("a@", "local-part@domain"),
        ("@b.example", "local-part@domain"),
        ("a b@c.example", "quoting"),
        ("a,b@c.example", "quoting"),
        ("<a@b.example", "quoting"),
        ("a@b@c.example", "quoting"),
        ("a..b@c.example", "quoting"),
        (".a@c.example", "quoting"),
        ("a.@c.example", "quoting"),
        ("a\u3000b@c.example", "quoting"),  # an ideographic space would end the path
        ("a\ufffdb@c.example", "quoting"),  # what a parser could not read names somebody else
        ('"a\ufffd"@c.example', "quoting"),
        ("x" * 65 + "@c.example", "64 octets"),
        ("ü" * 33 + "@c.example", "64 octets"),
        ("x" * 20 + "@" + ".".join(["b" * 60] * 4), "254 octets"),
        ("a@b..example", "host name"),
        ("a@-b.example", "host name"),
        ("a@b-.example", "host name"),
        ("a@b_c.example", "host name"),
        ("a@b.example.", "host name"),
        ("a@b.example> SIZE=1", "host name"),
        ("a@" + "b" * 64 + ".example", "host name"),
        ("a@[127.0.0.1", "host name"),
        ("a@ü..example", "international"),
        ("a@" + "ü" * 64 + ".example", "international"),
    ],
    ids=ascii,
)
def test_what_is_no_address_is_refused(address: object, rule: str) -> None:
    with pytest.raises(InvalidMessage, match=rule) as caught:
        check_address(address, "to")
    assert caught.value.field == "to"


@pytest.mark.parametrize(
    ("address", "wire"),
    [
        ("a@b.example", "a@b.example"),
        ("A.b+c@B.Example", "A.b+c@B.Example"),
        ("o'hara!#$%&*/=?^_`{|}~-@b.example", "o'hara!#$%&*/=?^_`{|}~-@b.example"),
        ('"a b@c"@d.example', '"a b@c"@d.example'),
        (r'"a\"b"@d.example', r'"a\"b"@d.example'),
        ("a@localhost", "a@localhost"),
        ("a@[127.0.0.1]", "a@[127.0.0.1]"),
        ("a@[IPv6:::1]", "a@[IPv6:::1]"),
        ("a@[ipv6:2001:db8::1]", "a@[ipv6:2001:db8::1]"),  # as a domain is kept, in lower case
        ("a@bücher.example", "a@xn--bcher-kva.example"),
        ("jö@bücher.example", "jö@xn--bcher-kva.example"),
        ("用户@例子.example", "用户@xn--fsqu00a.example"),
    ],
)
def test_an_address_goes_out_as_written_with_its_domain_in_ascii(address: str, wire: str) -> None:
    assert check_address(address, "to") == wire


@pytest.mark.over_and_over
@given(st.text(max_size=80) | st.from_regex(r"[^@]{0,70}@[^@]{0,70}", fullmatch=True))
def test_every_text_is_refused_or_makes_commands_that_smtp_can_say(text: str) -> None:
    refusal = None
    try:
        wire = check_address(text, "to")
    except InvalidMessage as error:
        refusal = error
    if refusal is not None:
        assert refusal.field == "to"
        assert refusal.rule
        return
    assert not CONTROL.search(wire)
    assert len(wire.encode()) <= MAX_ADDRESS
    assert wire.rpartition("@")[2].isascii()
    assert check_address(wire, "to") == wire
    envelope = Envelope(sender=wire, recipients=(wire,), smtputf8=not wire.isascii())
    assert mail_line(envelope, 1, {}).startswith(f"MAIL FROM:<{wire}>".encode())
    assert rcpt_lines(envelope, {}) == [f"RCPT TO:<{wire}>\r\n".encode()]


def test_the_suppression_list_knows_an_address_in_any_case() -> None:
    assert suppression_key("Jo@Shop.Example") == suppression_key("jO@shop.example")


@pytest.mark.parametrize("address", ["José@x.example", "J\u030c@x.example", "\u1fbc@x.example"])
def test_it_knows_an_address_in_any_spelling(address: str) -> None:
    (key,) = {suppression_key(normalize(form, address)) for form in ("NFC", "NFD")}
    assert suppression_key(key) == key
    assert spellings(address) == (key, normalize("NFD", key))
    assert spellings("Ada@x.example") == ("ada@x.example",)


def test_the_domain_is_read_after_the_last_at() -> None:
    assert domain_of('"a@b"@C.Example') == "c.example"


@pytest.mark.parametrize("domain", ["b.example", ".".join(["b" * 60] * 4), "[127.0.0.1]"])
def test_the_right_side_of_a_message_id_is_short(domain: str) -> None:
    made = id_domain(f"a@{domain}")
    assert 0 < len(made) <= 180
    assert made in domain
    assert made[0] not in ".-["
