"""What is measured by coverage: it doubles the time of a test, so no line is measured in vain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage
from hypothesis import is_hypothesis_test

from tests.support.turns import is_homeless, is_quick

_TESTS = Path(__file__).parents[1]
_MEASURED = ("unit", "integration")
_IS_MEASURED = pytest.StashKey[bool]()


def choose(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Measure one case of each test, and none of a test that is `over_and_over`.

    Hypothesis' tests are: each example runs the same lines.
    The parameters take turns, and so do the databases. With `--rest` a test is not
    measured that `make test` has measured.
    """
    rest = config.getoption("--rest")
    for number, cases in enumerate(_by_test(items).values()):
        if not (rest and any(map(is_quick, cases))) and _is_worth_it(cases[0]):
            cases[number % len(cases)].stash[_IS_MEASURED] = True


def is_measured(item: pytest.Item) -> bool:
    """Whether coverage counts what the test runs."""
    return item.stash.get(_IS_MEASURED, False)


def switch(item: pytest.Item) -> None:
    """Measure from here on, or do not, as the test wants: also its fixtures.

    pytest-cov's marker `no_cover` leaves out the test's own function alone.
    """
    plugin: Any = item.config.pluginmanager.getplugin("_cov")
    controller = getattr(plugin, "cov_controller", None)  # None with --no-cov
    if controller is None or controller.started == is_measured(item):
        return
    if controller.started:
        controller.pause()
        _stop_the_other()
    else:
        controller.resume()


def _stop_the_other() -> None:
    """Stop what goes on where ours has stopped: pytest-cov begins twice in a process of xdist."""
    while (other := Coverage.current()) is not None:
        other.stop()


def _by_test(items: Sequence[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """Return the cases of each test: its parameters, on one database or another."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not is_homeless(item):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return tests


def _is_worth_it(item: pytest.Item) -> bool:
    if is_hypothesis_test(getattr(item, "obj", None)) or item.get_closest_marker("over_and_over"):
        return False
    return item.path.relative_to(_TESTS).parts[0] in _MEASURED
