"""Prometheus' own tool, which checks metrics, rules and alerts."""

from __future__ import annotations

import shutil

from tests.support.servers.missing import missing


def promtool() -> str:
    """Return the path of promtool, or skip the test."""
    return shutil.which("promtool") or missing("promtool", "apt-get install prometheus")
