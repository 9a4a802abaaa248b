"""A filter that breaks a rule, or that no index serves, is refused by name, with the rule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from outbox import InvalidMessage, Status
from outbox.domain.config.search_terms import ALL_TERMS
from outbox.domain.search.filters import UNSERVED, Filters
from outbox.domain.search.place import Place, read_place

HUGE = "x" * 10_000_000
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["recipient", "message_id", "subject", "key", "tag", "status"])
@pytest.mark.parametrize("value", [HUGE, "a\0b@x.example", "a\nb@x.example", "", 7, b"a@x.example"])
def test_text_that_no_email_can_have_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidMessage) as refused:
        Filters.check(ALL_TERMS, **{name: value})
    assert refused.value.field == name
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", ["domain", "server", "reply", "phase"])
@pytest.mark.parametrize("value", [HUGE, "a\0b", "a\nb", "", " ", 7, b"x", "none of these@x"])
def test_what_no_last_attempt_can_have_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidMessage) as refused:
        Filters.check(ALL_TERMS, status="failed", **{name: value})
    assert refused.value.field == name
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", ["since", "until"])
@pytest.mark.parametrize("value", ["2026-07-01", datetime(2026, 7, 1)])  # noqa: DTZ001
def test_a_time_must_have_a_zone(name: str, value: Any) -> None:
    with pytest.raises(InvalidMessage, match=f"{name}: must be a"):
        Filters.check(ALL_TERMS, **{name: value})


def test_a_time_must_not_be_empty() -> None:
    with pytest.raises(InvalidMessage, match="until: must be after since"):
        Filters.check(ALL_TERMS, since=NOON, until=NOON)


@pytest.mark.parametrize("status", sorted(UNSERVED))
def test_a_status_that_no_index_has_needs_another_filter(status: Status) -> None:
    with pytest.raises(InvalidMessage) as refused:
        Filters.check(ALL_TERMS, status=status)
    others = "recipient, message_id, subject, key, tag, since, until"
    assert str(refused.value) == f"status: no index has {status}; indexes serve {others}"
    for name, value in (("tag", "t"), ("recipient", "a@x.example"), ("since", NOON)):
        assert Filters.check(ALL_TERMS, status=status, **{name: value}).status is status


def test_what_the_setting_leaves_out_is_refused() -> None:
    for term, value in (("recipient", "a@x.example"), ("message_id", "<1@x>"), ("subject", "a")):
        left = tuple(set(ALL_TERMS) - {term})
        with pytest.raises(InvalidMessage, match=f"{term}: is not indexed: OUTBOX_SEARCH leaves"):
            Filters.check(left, **{term: value})
        assert Filters.check(ALL_TERMS, **{term: value}) != Filters()


def test_terms_are_brought_into_the_form_in_which_they_are_stored() -> None:
    found = Filters.check(
        ALL_TERMS, recipient="Ada@Größe.example", message_id="1@x.example", subject=" ORDER  17"
    )
    assert found == Filters(
        recipient="Ada@xn--gre-6ka8i.example", message_id="<1@x.example>", subject="order 17"
    )


@pytest.mark.parametrize("place", [Place(17), Place(2**63 - 1, NOON)])
def test_a_place_is_read_as_it_was_written(place: Place) -> None:
    assert read_place(str(place)) == place
    assert read_place(None) is None


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "1.", "9" * 19, "1." + "9" * 18, 17, HUGE])
def test_any_other_text_is_no_place(text: Any) -> None:
    with pytest.raises(InvalidMessage, match="after: must be the `next` of the page before"):
        read_place(text)
