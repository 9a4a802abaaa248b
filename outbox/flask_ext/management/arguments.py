"""Checks the arguments of the verbs; a wrong one raises InvalidMessage, as in `enqueue`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from ...domain.config.enqueue_options import MAX_ID, check_id
from ...domain.delivery.status import Status
from ...domain.errors import InvalidMessage
from ...domain.priority import Priority

MOST_LISTED = 10_000

OnProgress: TypeAlias = Callable[[int, int], object]
"""Is called with how many ids have been gone through, and of how many; first with 0."""


def one_id(value: Any) -> int:
    """Return an email's id."""
    found = check_id(value)
    if found is None:
        raise InvalidMessage("id", f"must be a number from 1 to {MAX_ID}")
    return found


def several_ids(value: Any) -> list[int]:
    """Return the ids without repetitions, in their order; `value` is one id or an iterable."""
    if isinstance(value, (str, bytes)) or not isinstance(value, (int, Iterable)):
        raise InvalidMessage("ids", "must be an id, or an iterable of ids")
    given = [value] if isinstance(value, int) else value
    return list(dict.fromkeys(map(one_id, given)))


def status_of(field: str, value: Any, allowed: Sequence[Status]) -> Status:
    """Return the status that `value` is or names; it must be one of the `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidMessage(field, f"must be one of {', '.join(allowed)}")
    return Status(value)


def priority_of(value: Any) -> Priority | None:
    """Return the priority that `value` is or names; None stands for all."""
    return None if value is None else Priority.of(value)


def seconds_of(field: str, value: Any, longest: float) -> float:
    """Return a number of seconds."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= longest:  # NaN is in no range
        raise InvalidMessage(field, f"must be seconds from 0 to {longest:.0f}")
    return float(value)


def limit_of(value: Any, most: int = MOST_LISTED, *, name: str = "limit") -> int:
    """Return how many entries are asked for."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidMessage(name, f"must be a number from 1 to {most}")
    return value
