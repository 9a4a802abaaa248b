"""What the bench makes of its figures: ratios, verdicts, and a table that invents nothing."""

from __future__ import annotations

from pathlib import Path

from benchmarks import plot, table
from benchmarks.publish import figures, rendered
from benchmarks.results import Part, Report, Row, Series, Target, at_least, at_most, load
from benchmarks.scenarios import SCENARIOS

OURS = Series("this project", "emails/s", (90.0, 120.0, 100.0))
PEER = Series("peer", "emails/s", (30.0, 60.0, 10.0))


def report(*rows: Row, scale: float = 1) -> Report:
    conditions = {
        "scale": scale,
        "commit": "abc",
        "cores": 2,
        "cores_of_machine": 4,
        "changed": False,
        "started": "2026-01-01",
        "rounds": 3,
        "processor": "a processor",
        "memory_gb": 8,
        "system": "Linux",
        "python": "3.11",
        "packages": {},
        "load_before": 0.1,
    }
    return Report(conditions, [Part("drain", rows, ("a remark",))])


def row(target: Target | None = None, beside: Series | None = PEER) -> Row:
    return Row("drain", "a drain", OURS, beside, target)


def test_a_ratio_is_of_medians_and_its_spread_of_rounds() -> None:
    assert row().value == 100 / 30
    assert row().spread == (2, 10)


def test_a_figure_without_a_peer_stands_for_itself() -> None:
    assert row(beside=None).value == 100
    assert row(beside=None).spread == (90, 120)


def test_a_target_is_met_from_its_limit_on() -> None:
    assert row(at_least(100 / 30)).met is True
    assert row(at_least(4)).met is False
    assert row(at_most(100), None).met is True
    assert row(at_most(99), None).met is False
    assert row().met is None


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = report(row(at_least(3)), row(beside=None))
    written.save(tmp_path / "bench.json")
    assert load(tmp_path / "bench.json") == written


def test_what_was_not_measured_says_so() -> None:
    lines = figures([report(row(at_least(3)))]).splitlines()
    assert any("| drain | a drain |" in line and "| met |" in line for line in lines)
    assert sum(table.NOT_MEASURED in line for line in lines) == len(SCENARIOS) - 1


def test_runs_of_different_scenarios_stand_in_one_table_with_the_conditions_of_each() -> None:
    first = report(row(at_least(3)))
    later = Report(first.conditions | {"commit": "def"}, [Part("idle", (row(),)), *first.parts])
    shown = figures([first, later])
    assert shown.count("at commit `abc`") == shown.count("at commit `def`") == 1
    assert shown.count("| drain | a drain |") == 2, "one of idle's, and one of drain, the last"
    assert shown.count(table.NOT_MEASURED) == len(SCENARIOS) - 2


def test_a_run_on_smaller_sizes_measures_nothing() -> None:
    shown = table.markdown(report(row(at_least(3)), scale=0.1), list(SCENARIOS))
    assert shown.count(table.NOT_MEASURED) == len(SCENARIOS)


def test_a_failure_stands_in_the_table() -> None:
    broken = Report(report().conditions, [Part("drain", failure="TimeoutError: no email")])
    assert "failed: TimeoutError: no email" in table.plain(broken)


def test_the_page_keeps_what_is_around_the_figures() -> None:
    page = "before\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nafter\n"
    new = rendered(page, [report(row())])
    assert new.startswith("before\n")
    assert new.endswith("after\n")
    assert "old" not in new
    assert rendered(new, []).count("figures: begin") == 1


def test_the_plot_has_a_bar_for_each_target() -> None:
    picture = plot.svg(report(row(at_least(3)), row(at_most(0), None), row()))
    assert picture.count('text-anchor="end"') == 2
