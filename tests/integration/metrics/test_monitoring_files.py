"""The alerts and the dashboard of docs/deploy/monitoring: Prometheus reads them, and they fit."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.metrics.promtool import promtool
from tests.support.shop.shop import Shop

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "docs" / "deploy" / "monitoring"
ALERTS = FILES / "outbox-alerts.yaml"
CASES = Path(__file__).with_name("alerts.yaml")
PANELS = json.loads((FILES / "outbox-grafana.json").read_text(encoding="utf-8"))["panels"]
RULES = [
    rule
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]


def expressions() -> list[str]:
    """Return all that the alerts and the panels ask for."""
    shown = [target["expr"] for panel in PANELS for target in panel["targets"]]
    return [rule["expr"] for rule in RULES] + shown


def check(*arguments: object) -> str:
    """Run promtool; return what it has to say if it finds a fault."""
    done = subprocess.run(
        [promtool(), *map(str, arguments)], text=True, capture_output=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_prometheus_reads_the_alerts() -> None:
    assert check("check", "rules", ALERTS) == ""


@pytest.mark.long
def test_each_alert_is_raised_by_what_it_is_for_and_by_nothing_else() -> None:
    assert check("test", "rules", CASES) == ""
    asked = [
        one
        for case in yaml.safe_load(CASES.read_text())["tests"]
        for one in case["alert_rule_test"]
    ]
    names = {rule["alert"] for rule in RULES}
    assert {one["alertname"] for one in asked if one.get("exp_alerts")} == names
    assert {one["alertname"] for one in asked if not one.get("exp_alerts")} == names


def test_prometheus_can_answer_what_the_dashboard_asks(tmp_path: Path) -> None:
    asked = [expr.replace("$__rate_interval", "5m") for expr in expressions()]
    rules = [{"record": f"panel:{place}", "expr": expr} for place, expr in enumerate(asked)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert check("check", "rules", file) == ""


def test_no_two_panels_are_in_the_same_place() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        x, y, w, h = (panel["gridPos"][name] for name in "xywh")
        return {(column, row) for column in range(x, x + w) for row in range(y, y + h)}

    places = [cells(panel) for panel in PANELS]
    assert sum(map(len, places)) == len(set().union(*places))
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


@pytest.mark.one_database("sqlite")
def test_each_metric_that_they_name_is_in_a_scrape(shop: Shop) -> None:
    told = set(re.findall(r"^# TYPE (\w+)", shop.outbox.metrics(), re.MULTILINE))
    named = {name for expr in expressions() for name in re.findall(r"\boutbox_\w+", expr)}
    assert {name.removesuffix("_bucket") for name in named} == told
