"""A directory for each search: Spin and the compiler write next to the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.spin import Search, Searcher


@pytest.fixture
def search(tmp_path: Path) -> Searcher:
    """Make a search of a model with these macros."""

    def make(model: str, **macros: int | str) -> Search:
        return Search(directory=tmp_path / "search", model=model, macros=macros)

    return make
