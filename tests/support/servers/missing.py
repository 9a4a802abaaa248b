"""What happens to a test whose server is not installed."""

import os
from typing import NoReturn

import pytest


def missing(server: str, remedy: str) -> NoReturn:
    """Skip the test on a person's machine, fail it in CI (`CI=true`); both name the remedy."""
    reason = f"{server} is not installed: {remedy}"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
