"""International domains: the host that UTS 46 names, or a refusal."""

from __future__ import annotations

import idna
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from outbox.domain.address import check_address
from outbox.domain.errors import InvalidMessage
from outbox.domain.idna import Unsure, to_ascii


def uts46(domain: str) -> str | None:
    """Return what the reference names, or None where it refuses."""
    try:
        return idna.encode(domain, uts46=True, std3_rules=True).decode()
    except UnicodeError:
        return None


@pytest.mark.parametrize(
    ("domain", "ascii_"),
    [
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("Straße.example", "xn--strae-oqa.example"),
        ("größe.straße.example", "xn--gre-6ka8i.xn--strae-oqa.example"),
        ("φάος.example", "xn--hxa2bjn.example"),
        ("例子。example", "xn--fsqu00a.example"),
        ("münchen.bücher.example", "xn--mnchen-3ya.xn--bcher-kva.example"),
    ],
)
def test_a_domain_is_the_one_that_browsers_open(domain: str, ascii_: str) -> None:
    assert to_ascii(domain) == uts46(domain) == ascii_


@pytest.mark.parametrize(
    "domain",
    [
        "STRAẞE.example",
        "a\u200db.example",
        "a\u200cb.example",
        "\u13a0.example",
        "\U0001f600.example",
    ],
    ids=ascii,
)
def test_where_the_standards_differ_a_domain_is_refused(domain: str) -> None:
    with pytest.raises(Unsure):
        to_ascii(domain)
    with pytest.raises(InvalidMessage, match="xn--"):
        check_address(f"a@{domain}", "to")


LETTERS = st.text(
    st.characters(categories=["L", "M", "N"]) | st.sampled_from("ßςẞΣσöé"), max_size=8
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=500)
@given(LETTERS)
@example("ß")
@example("ßς")
@example("e\u0301ß")
@example("\u1160a")
@example("ﬀß")
def test_no_domain_is_another_host_than_the_one_of_uts_46(label: str) -> None:
    domain = f"x{label}.example"
    try:
        wire = check_address(f"a@{domain}", "to").partition("@")[2]
    except InvalidMessage:
        return
    assert uts46(domain) in (None, wire.lower())
