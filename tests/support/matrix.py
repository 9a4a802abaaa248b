"""Which cases of a matrix `make test` runs: each value of each parameter, not each combination."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest

from tests.support.turns import is_quick

Value = tuple[tuple[str, ...], tuple[int, ...]]
"""A parameter's name and which of its values it is; those that are given together are one."""


def thin_out(items: Sequence[pytest.Item]) -> None:
    """Mark as `long` what a test that is marked `matrix` has more than it needs for each value."""
    tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("matrix") and hasattr(item, "callspec") and is_quick(item):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        for case in set(cases) - set(_cover(cases)):
            case.add_marker("long")


def _cover(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return few of the cases that have each value between them.

    The next one is that with the most values which none has yet. Of several it is one with values
    that few have: so the databases take turns.
    """
    values = {case: _values(case) for case in cases}
    missing, used = set[Value]().union(*values.values()), Counter[Value]()
    chosen: list[pytest.Item] = []
    while missing:
        best = max(cases, key=lambda case: _worth(values[case], missing, used))
        chosen.append(best)
        missing -= values[best]
        used.update(values[best])
    return chosen


def _worth(values: frozenset[Value], missing: set[Value], used: Counter[Value]) -> tuple[int, int]:
    return len(values & missing), -sum(used[value] for value in values)


def _values(case: pytest.Item) -> frozenset[Value]:
    params = case.callspec.params  # type: ignore[attr-defined]
    given = [_names(mark.args[0]) for mark in case.iter_markers("parametrize")]
    alone = set(params) - {name for names in given for name in names}
    groups = [*given, *((name,) for name in alone)]
    return frozenset((names, tuple(id(params[name]) for name in names)) for names in groups)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(name.strip() for name in given.split(","))
    return tuple(given)
