"""In which order tests run where several processes share them (`pytest-xdist`, `worksteal`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_SYSTEMS = {"acceptance", "browser"}


def deal(items: Sequence[pytest.Item], hands: int) -> list[pytest.Item]:
    """Return the tests in an order in which no process ends long after the others.

    Each process is given a run of them, and one that is done takes from the others' ends: so the
    long ones come first, and the short ones last. One process has all that run a whole system:
    side by side these would take the cores from each other, and some are held to a time.
    """
    if hands < 2:
        return list(items)
    systems = sorted((item for item in items if _is_of_a_system(item)), key=_dearest_first)
    apart = set(systems)
    long = [item for item in items if item not in apart and item.get_closest_marker("long")]
    apart.update(long)
    others = iter([item for item in items if item not in apart])
    firsts = [systems, *(long[hand :: hands - 1] for hand in range(hands - 1))]
    size = len(items) // hands
    dealt: list[pytest.Item] = []
    for first in firsts:
        dealt += [*first, *islice(others, max(0, size - len(first)))]
    return [*dealt, *others]


def _is_of_a_system(item: pytest.Item) -> bool:
    """Also what needs a RabbitMQ: to start one takes longer than the tests."""
    return bool(_folders(item) & _SYSTEMS) or "rabbitmq" in item.name


def _dearest_first(item: pytest.Item) -> int:
    """Put first what needs a server of its own kind: another process takes from the end."""
    return 0 if "rabbitmq" in item.name else 1 if "browser" in _folders(item) else 2


def _folders(item: pytest.Item) -> set[str]:
    return set(item.path.relative_to(_TESTS).parts[:-1])
