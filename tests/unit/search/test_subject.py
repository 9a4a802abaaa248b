"""A subject is found as a reader sees it, whatever its case, and never with what no index takes."""

from __future__ import annotations

from email.header import Header

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.header.address import CONTROL
from outbox.domain.search.subject import MAX_SUBJECT, folded_subject, read_subject
from tests.support.shop.shop import message


@pytest.mark.parametrize(
    "subject",
    [
        "Order 17",
        "Größe Ελλάδα 東京",
        "A very long subject that is folded " * 6,
        "=?x?= is no word",
    ],
)
def test_it_is_read_from_the_octets_as_it_was_given(subject: str) -> None:
    octets = message(subject=subject.strip()).as_bytes().replace(b"\n", b"\r\n")
    assert read_subject(octets) == subject.strip()


@pytest.mark.parametrize(
    ("octets", "found"),
    [
        (b"To: a@x.example\r\n\r\nSubject: of the body\r\n", None),
        (b"\r\nSubject: of the body\r\n", None),
        (b"X-Subject: no\r\nSUBJECT:yes\r\n\r\n", "yes"),
        (b"Subject: two\r\n lines\r\nTo: a@x.example\r\n", "two lines"),
        (b"Subject:\r\n\r\n", ""),
        (b"Subject: =?no-charset?Q?x?=\r\n\r\n", "=?no-charset?Q?x?="),
        (b"", None),
    ],
)
def test_only_the_header_has_it(octets: bytes, found: str | None) -> None:
    assert read_subject(octets) == found


def test_case_and_blanks_do_not_count() -> None:
    assert folded_subject("  Straße\t 17 ") == folded_subject("STRASSE 17") == "strasse 17"
    assert folded_subject("e\u0301t\u00e9") == folded_subject("\u00c9T\u00c9")
    assert folded_subject("A" * 999) == "a" * MAX_SUBJECT


@given(st.text(max_size=400))
def test_the_folded_form_is_short_clean_and_stays_as_it_is(text: str) -> None:
    folded = folded_subject(text)
    assert len(folded) <= MAX_SUBJECT
    assert not CONTROL.search(folded)
    assert folded_subject(folded) == folded


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=100))
def test_an_encoded_subject_is_read_as_it_was_written(text: str) -> None:
    octets = f"Subject: {Header(text, 'utf-8').encode(linesep=chr(13) + chr(10))}\r\n\r\n".encode()
    assert read_subject(octets) == text
