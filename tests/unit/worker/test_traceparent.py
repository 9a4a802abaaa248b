"""`traceparent` is read as W3C's Trace Context has it, and written in its form 00."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.traceparent import LENGTH, TraceParent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01"


def test_a_valid_one_has_the_ids_and_the_flags() -> None:
    found = TraceParent.parse(VALID)
    assert found == TraceParent(int(TRACE, 16), int(SPAN, 16), 1)
    assert found is not None
    assert (str(found), found.trace, len(VALID)) == (VALID, TRACE, LENGTH)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01more",
        f" {VALID}",
        f"{VALID}\n",
        f"cc-{TRACE}-{SPAN}-01-a\nb",
        f"00-{TRACE[:-1]}٣-{SPAN}-01",
    ],
)
def test_an_invalid_one_is_none(text: str | None) -> None:
    assert TraceParent.parse(text) is None


def test_a_later_version_may_go_on_and_only_its_sampled_flag_is_known() -> None:
    for flags, sampled in (("01", 1), ("ff", 1), ("fe", 0)):
        for more in ("", "-", "-what-comes"):
            found = TraceParent.parse(f"cc-{TRACE}-{SPAN}-{flags}{more}")
            assert found == TraceParent(int(TRACE, 16), int(SPAN, 16), sampled)


def test_what_is_out_of_range_is_not_valid() -> None:
    assert TraceParent(1, 1, 0).is_valid
    assert TraceParent(2**128 - 1, 2**64 - 1, 255).is_valid
    wrong = [(0, 1, 0), (2**128, 1, 0), (-1, 1, 0), (1, 0, 0), (1, 2**64, 0), (1, 1, 256)]
    assert not any(TraceParent(*one).is_valid for one in wrong)


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_what_is_written_is_read_back(trace: int, span: int, flags: int) -> None:
    context = TraceParent(trace, span, flags)
    assert len(str(context)) == LENGTH
    assert TraceParent.parse(str(context)) == context
