"""How urgent an email is."""

from __future__ import annotations

import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.priority import Priority


def test_lower_numbers_leave_first() -> None:
    assert sorted(Priority) == [Priority.URGENT, Priority.NORMAL, Priority.BULK]
    assert [int(priority) for priority in Priority] == [0, 1, 2]


@pytest.mark.parametrize("value", [Priority.BULK, 2, "bulk", "BULK", "Bulk"])
def test_a_priority_is_read_from_its_number_or_its_name_in_any_case(value: object) -> None:
    assert Priority.of(value) is Priority.BULK


@pytest.mark.parametrize(
    "value", [None, True, False, 3, -1, 1.0, "", "2", "high", "bulk ", b"bulk", [], {}, object()]
)
def test_anything_else_is_refused_and_the_names_are_told(value: object) -> None:
    with pytest.raises(InvalidMessage, match="one of urgent, normal, bulk") as caught:
        Priority.of(value)
    assert caught.value.field == "priority"
