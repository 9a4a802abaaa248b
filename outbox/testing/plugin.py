"""The pytest plugin: the fixture `outbox`. Only this module imports pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask

from .open_context import warn_if_open
from .tester import OutboxTester


@pytest.fixture
def outbox(app: Flask) -> Iterator[OutboxTester]:
    """The emails of the app that the fixture `app` returns, and a scripted SMTP server."""
    warn_if_open(app)
    with OutboxTester(app) as tester:
        yield tester
