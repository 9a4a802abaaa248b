"""What is not to be measured by coverage runs at full speed."""

from __future__ import annotations

import sys
import threading

import pytest


@pytest.mark.over_and_over
def test_no_tracer_of_coverage_runs_in_a_test_that_is_not_measured() -> None:
    tracers = (sys.gettrace(), threading.gettrace())
    assert not [tracer for tracer in tracers if "coverage" in repr(tracer)]
