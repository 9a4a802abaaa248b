"""Time decides no property: a slow machine tries its examples as a fast one does."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def test_an_example_may_take_as_long_as_it_takes() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
