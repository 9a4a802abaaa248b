"""What the bench takes out of a worker is where it looks for it, and is all of it."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter

import pytest

from benchmarks.instruments.removal import REPLACED, STATEMENT, Removable, uncounted


@pytest.mark.parametrize("removable", Removable)
def test_what_is_replaced_is_there(removable: Removable) -> None:
    for module, name in REPLACED[removable]:
        assert callable(attrgetter(name)(import_module(module)))


def test_a_window_without_counts_names_nothing_of_them() -> None:
    module, name = STATEMENT
    whole = getattr(import_module(module), name)
    rest = uncounted(whole)
    for word in ("{tally}", "counted", "{bounds}", "lane", "priority", "AS due"):
        assert word in whole
        assert word not in rest
    for word in ("{email}", "{attempt}", "written", "logged", "opened"):
        assert word in rest


def test_a_statement_that_has_no_counts_is_refused() -> None:
    module, name = STATEMENT
    with pytest.raises(ValueError, match="has 0 times"):
        uncounted(uncounted(getattr(import_module(module), name)))
