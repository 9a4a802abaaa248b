"""International domains: the host that UTS 46 and IDNA 2008 name, or a refusal."""

from __future__ import annotations

import idna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.errors import InvalidMessage
from outbox.domain.header.address import check_address


def domain_of(domain: str) -> str:
    """Return the domain as it goes on the wire."""
    return check_address(f"a@{domain}", "to").partition("@")[2]


@pytest.mark.parametrize(
    ("domain", "ascii_"),
    [
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("Straße.example", "xn--strae-oqa.example"),
        ("STRAẞE.example", "xn--strae-oqa.example"),
        ("größe.straße.example", "xn--gre-6ka8i.xn--strae-oqa.example"),
        ("φάος.example", "xn--hxa2bjn.example"),
        ("βόλος.com", "xn--nxasmm1c.com"),
        ("例子。example", "xn--fsqu00a.example"),
        ("münchen.bücher.example", "xn--mnchen-3ya.xn--bcher-kva.example"),
        ("xn--bcher-kva.bücher.example", "xn--bcher-kva.xn--bcher-kva.example"),
    ],
)
def test_a_domain_is_the_one_that_browsers_open(domain: str, ascii_: str) -> None:
    assert domain_of(domain) == ascii_


@pytest.mark.parametrize(
    ("name", "ascii_"),
    [
        # From IANA's list of top-level domains.
        ("中国", "xn--fiqs8s"),
        ("рф", "xn--p1ai"),
        ("укр", "xn--j1amh"),
        ("ελ", "xn--qxam"),
        ("հայ", "xn--y9a3aq"),
        ("გე", "xn--node"),
        ("한국", "xn--3e0b707e"),
        ("ไทย", "xn--o3cw4h"),
        ("ລາວ", "xn--q7ce6a"),
        ("ලංකා", "xn--fzc2c9e2c"),
        ("ভারত", "xn--45brj9c"),
        ("বাংলা", "xn--54b7fta0cc"),
        ("ഭാരതം", "xn--rvc1e0am3e"),
        ("ಭಾರತ", "xn--2scrj9c"),
        ("ଭାରତ", "xn--3hcrj9c"),
        ("ਭਾਰਤ", "xn--s9brj9c"),
        ("ભારત", "xn--gecrj9c"),
        ("భారత్", "xn--fpcrj9c3d"),
        ("இந்தியா", "xn--xkc2dl3a5ee0h"),
        ("भारतम्", "xn--h2breg3eve"),
        ("ישראל", "xn--4dbrk0ce"),
        ("ایران", "xn--mgba3a4f16a"),
        ("پاکستان", "xn--mgbai9azgqp6j"),
        # With joiners that belong there, and in scripts and letters that are newer than Python's
        # own codec knows.
        ("نامه\u200cای", "xn--mgba3gch31f060k"),  # noqa: RUF001
        ("ශ්\u200dරී", "xn--10cl1a0b660p"),
        ("မြန်မာ", "xn--7idjb0f4ck"),
        ("উৎসব", "xn--d5b4e9a9e"),
        ("അവൻ", "xn--uvc0h0i"),
        ("ᏣᎳᎩ", "xn--f9dt7l"),
        ("ⴰⵎⴰⵣⵉⵖ", "xn--4lja9esa6b8d"),
        ("ߒߞߏ", "xn--qsbf0b"),
        ("ꦗꦮ", "xn--1l9atb"),
        ("ދިވެހި", "xn--hqbpi0jcw"),
    ],
)
def test_names_of_many_scripts_are_written(name: str, ascii_: str) -> None:
    assert domain_of(f"{name}.example") == f"{ascii_}.example"
    assert domain_of(f"mail.{name}") == f"mail.{ascii_}"


@pytest.mark.parametrize(
    "domain",
    [
        "a\u200db.example",  # joiners where nothing is joined
        "a\u200cb.example",
        "\U0001f600.example",
        "\u2603.net",
        "example\u00b7.com",  # a middle dot that is not between two l
        "\u0301a.example",  # begins with an accent
        "-ü.example",
        "ü-.example",
        "aa--ü.example",
        "xn--ü.example",
        "xn--a.bücher.example",  # an xn-- that nothing makes
        "a\u05d0.example",  # right to left in a word from left to right
        "a\u2488b.example",  # "1." in one character
        "ü_b.example",
        "ü..example",
        "ü" * 64 + ".example",
    ],
    ids=ascii,
)
def test_what_no_registry_would_take_is_refused_and_its_ascii_form_asked_for(domain: str) -> None:
    with pytest.raises(InvalidMessage, match="xn--") as caught:
        domain_of(domain)
    assert domain not in str(caught.value)


def test_a_name_that_exists_all_the_same_has_its_ascii_form() -> None:
    assert domain_of("xn--n3h.net") == "xn--n3h.net"


@pytest.mark.parametrize("long", ["ü" * 4000, "ü." * 2000, "\u00ad" * 4000 + "ü", "漢" * 256])
def test_a_domain_that_is_too_long_is_refused_before_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, long: str
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(idna, "encode", lambda name, **_: looked.append(name))
    with pytest.raises(InvalidMessage, match="25"):
        domain_of(f"{long}.example")
    assert not looked


LETTERS = st.text(
    st.characters(categories=["L", "M", "N"]) | st.sampled_from("ßςẞΣσöé"), max_size=8
)


@given(LETTERS)
def test_what_is_written_names_the_same_host_when_it_is_read(label: str) -> None:
    try:
        wire = domain_of(f"x{label}.example")
    except InvalidMessage:
        return
    assert wire.isascii()
    assert domain_of(wire) == wire
    assert domain_of(idna.decode(wire)).lower() == wire.lower()
