"""Values are told apart by what they hold, and nobody is asked to change one."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from outbox import Priority, Status
from outbox.domain.delivery.transaction import Reply
from outbox.domain.values import value_type
from outbox.store.records import Email


@value_type(frozen=True, kw_only=True, slots=True)
class Pair:
    """A value."""

    left: int
    right: tuple[int, ...] = ()


def test_equal_values_are_one_key() -> None:
    assert {Pair(left=1): "one"}[Pair(left=1)] == "one"
    assert Pair(left=1) != Pair(left=1, right=(2,))


def test_another_value_is_a_copy() -> None:
    first = Reply(code=250, text="Ok")
    assert (replace(first, code=251).code, first.code) == (251, 250)


def test_what_users_are_given_is_frozen() -> None:
    email = Email(
        id=1,
        message_id="<a@b>",
        status=Status.PENDING,
        priority=Priority.NORMAL,
        key=None,
        tag=None,
        recipients=1,
        size=10,
        created=True,
    )
    with pytest.raises(FrozenInstanceError):
        email.status = Status.SENT  # type: ignore[misc]
