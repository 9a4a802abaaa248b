"""The bytes on the wire: line ends, line lengths, dot-stuffing."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outbox.domain.mime.line_endings import (
    MAX_TEXT_LINE,
    dot_stuff,
    has_long_line,
    header_names,
    normalise,
)

NASTY = st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b".", b"..", b"x", b" ", b"\0"])).map(
    b"".join
)

ENDS = [b"\r\n", b"\n", b"\r", b""]


def receive(stuffed: bytes) -> bytes:
    """Take the email as a server does: up to the lone dot, each line's first dot removed."""
    lines = []
    for line in (stuffed + b".\r\n").split(b"\r\n"):
        if line == b".":
            break
        lines.append(line[1:] if line.startswith(b".") else line)
    return b"".join(line + b"\r\n" for line in lines)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", b"\r\n"),
        (b"a", b"a\r\n"),
        (b"a\n", b"a\r\n"),
        (b"a\r", b"a\r\n"),
        (b"a\r\n", b"a\r\n"),
        (b"a\nb\rc\r\nd", b"a\r\nb\r\nc\r\nd\r\n"),
        (b"a\n\r", b"a\r\n\r\n"),
        (b"a\r\r\nb", b"a\r\n\r\nb\r\n"),
        (b"a\n.\nb", b"a\r\n.\r\nb\r\n"),
        (b"a\r.\rb", b"a\r\n.\r\nb\r\n"),
        (b"a\r\n.\nb", b"a\r\n.\r\nb\r\n"),
    ],
)
def test_bare_line_ends_become_crlf(data: bytes, expected: bytes) -> None:
    assert normalise(data) == expected


@given(NASTY | st.binary())
@example(b"\n\r")
def test_normalised_data_has_no_bare_line_end_and_stays_as_it_is(data: bytes) -> None:
    done = normalise(data)
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", done)
    assert done.endswith(b"\r\n")
    assert normalise(done) == done
    assert re.sub(rb"[\r\n]", b"", done) == re.sub(rb"[\r\n]", b"", data)


@given(NASTY | st.binary())
@example(b".")
@example(b".\r\n.\r\n")
@example(b"a\n.\nMAIL FROM:<evil@x.example>\n")
def test_a_server_gets_back_what_was_stuffed_and_ends_at_our_dot_only(data: bytes) -> None:
    content = normalise(data)
    assert receive(dot_stuff(content)) == content


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b".", b".."),
        (b".a\r\n.b", b"..a\r\n..b"),
        (b"a.b\r\n", b"a.b\r\n"),
        (b"..\r\n", b"...\r\n"),
    ],
)
def test_a_dot_at_the_start_of_a_line_is_doubled(data: bytes, expected: bytes) -> None:
    assert dot_stuff(data) == expected


@pytest.mark.parametrize(("length", "long"), [(MAX_TEXT_LINE, False), (MAX_TEXT_LINE + 1, True)])
def test_a_line_is_long_from_999_octets_on(length: int, long: bool) -> None:
    assert has_long_line(b"a\r\n" + b"x" * length + b"\r\nb\r\n") is long


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 500, 997, 998, 999, 2000]), st.sampled_from(ENDS)))
)
def test_a_long_line_is_found_wherever_it_stands(lines: list[tuple[int, bytes]]) -> None:
    data = b"".join(b"x" * length + end for length, end in lines)
    longest = max(map(len, re.split(rb"[\r\n]", data)))
    assert has_long_line(data) is (longest > MAX_TEXT_LINE)


def test_a_receiver_reads_a_field_on_every_line_that_is_not_folded() -> None:
    assert header_names(b"A: 1\r\n 2\r\n\t3\r\nb-C:\r\nno field\r\n") == ["A", "b-C", ""]
    assert header_names(b"") == []
    assert header_names(b"A: 1\r\n\r\nB: 2\r\n") == ["A", "", "B"]
