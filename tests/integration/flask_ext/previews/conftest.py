"""The site that the tests of the previews have."""

from __future__ import annotations

import pytest

from .site import Site


@pytest.fixture
def site() -> Site:
    return Site()
