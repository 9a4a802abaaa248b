"""What the tests of sessions share."""

import gc

import pytest


@pytest.fixture
def young_heap() -> None:
    """The collector passes over what is older than the test: else each of its looks is dear."""
    gc.freeze()
