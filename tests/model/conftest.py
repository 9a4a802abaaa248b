"""A directory for each search: Spin and the compiler write next to the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.model.spin import Search, Searcher


@pytest.fixture
def search(tmp_path: Path) -> Searcher:
    """Make a search of a model with these macros."""

    def make(model: str, **macros: int | str) -> Search:
        return Search(directory=tmp_path / "search", model=model, macros=macros)

    return make


@pytest.fixture
def holds(search: Searcher) -> Callable[[str, tuple[dict[str, int], int]], None]:
    """Hold that no state of a model breaks a promise, and that it has more states than so many."""

    def every_state(model: str, size: tuple[dict[str, int], int]) -> None:
        macros, least = size
        result = search(model, **macros).every_state()
        print(f"{model} with {macros}: {result.states} states")
        assert (result.errors, result.broken, result.complete) == (0, None, True)
        assert result.states > least  # fewer would mean that the model has lost some of its actions

    return every_state
