"""The short way to fill in a template gives the octets of the long one."""

from __future__ import annotations

import quopri
from html import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outbox.domain.message.merge_template import Template

VALUE = st.text(st.sampled_from("ab =&<>'\"%.?\té"), max_size=90)
TEXT = st.text(st.sampled_from("ab =&<.é"), max_size=40)


def template(kind: str, texts: list[str]) -> bytes:
    """Return a template of two lines, each with the fields `one` and `two` between its texts."""
    first, between, last = texts
    line = f"{kind}{first}{{{{ one }}}}{between}{{{{two}}}}{last}".encode()
    return b"Head: 1\r\n\r\n\0" + line + b"\0\r\nthe same\r\n\0" + line + b"\0\r\n"


@given(st.sampled_from("th"), st.lists(TEXT, min_size=3, max_size=3), VALUE, VALUE)
@example("t", ["a", "", ""], "b", "b ")  # a blank at the end of a line is to be encoded
@example("t", ["", "", ""], "b" * 38, "b" * 38)
@example("t", ["", "", ""], "b" * 38, "b" * 39)
@example("h", ["a", "b", ""], "O'Brien", "a")
def test_each_line_is_the_text_in_quoted_printable(
    kind: str, texts: list[str], one: str, two: str
) -> None:
    made = Template(template(kind, texts)).render([one, two])
    first, between, last = texts
    values = [escape(one), escape(two)] if kind == "h" else [one, two]
    text = f"{first}{values[0]}{between}{values[1]}{last}".encode()
    head, lines = made.split(b"\r\n\r\n", 1)
    assert head == b"Head: 1"
    assert quopri.decodestring(lines) == text + b"\r\nthe same\r\n" + text + b"\r\n"
    for line in lines.split(b"\r\n"):
        assert len(line) <= 76
        assert line.isascii()
        assert not line.endswith((b" ", b"\t"))


@pytest.mark.parametrize("values", [["a", 1], ["a", None], ["a", ["b"]]])
def test_values_that_are_no_texts_are_refused(values: list[str]) -> None:
    with pytest.raises((TypeError, AttributeError)):
        Template(template("t", ["", "", ""])).render(values)
