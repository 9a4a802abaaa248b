"""What the bench makes of its figures: ratios, verdicts, and a table that invents nothing."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from benchmarks import plot, table
from benchmarks.publish import BEGIN, END, published
from benchmarks.results import Part, Report, Row, Series, Target, at_least, at_most, load
from benchmarks.scenarios import ALL

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
        "servers": {"PostgreSQL": "18.4", "Redis": "6.2.14"},
        "file_system": "ext4",
        "packages": {"redis": "8.1.0"},
        "load_before": 0.1,
    }
    return Report(conditions, [Part("drain", rows, ("a remark",))])


def row(target: Target | None = None, beside: Series | None = PEER, scenario: str = "drain") -> Row:
    return Row(scenario, "a drain", OURS, beside, target)


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


def page(*reports: Report, old: str = "") -> str:
    return published(f"before\n{BEGIN}\n{old}\n{END}\nafter\n", reports)[0]


def test_where_turns_are_many_the_figure_and_its_spread_are_of_their_ratios() -> None:
    many = Row("drain", "a drain", OURS, PEER, paired=True)
    assert many.value == 3
    assert many.spread == (2.5, 6.5), "the quartiles of 2, 3 and 10"


def test_what_was_not_measured_says_so() -> None:
    lines = page(report(row(at_least(2)))).splitlines()
    assert any("| drain | a drain |" in line and "| met |" in line for line in lines)
    assert sum(table.NOT_MEASURED in line for line in lines) == len(ALL) - 1
    assert "No run at full size" in page()


def test_runs_of_different_scenarios_stand_in_one_table_with_the_conditions_of_each() -> None:
    first = report(row(at_least(3)))
    later = Report(
        first.conditions | {"commit": "def"}, [Part("idle", (row(scenario="idle"),)), *first.parts]
    )
    shown = page(
        Report(first.conditions, [*first.parts, Part("lanes", (row(scenario="lanes"),))]), later
    )
    text = " ".join(shown.split())
    assert "at commit `abc`: 3 rounds of lanes on 2" in text, "the other's figures are older"
    assert "at commit `def`: 3 rounds of idle, drain on 2" in text
    assert shown.count("| a drain |") == 3, "one of each scenario"
    assert shown.count(table.NOT_MEASURED) == len(ALL) - 3
    assert "`abc`" not in page(first, later), "nothing of that run is left"


def test_a_run_replaces_its_scenarios_and_leaves_the_others_as_they_are() -> None:
    first = report(row(at_least(3)), row(at_most(0), None))
    long = Part(
        "idle", (row(scenario="idle"),), ("a remark that is longer than a line is wide, " * 4,)
    )
    before = page(first, Report(first.conditions | {"commit": "def"}, [long]))
    assert published(before, [])[0] == before
    after = published(before, [Report(first.conditions, [Part("idle", ())])])[0]
    assert after.count("| drain | a drain |") == before.count("| drain | a drain |") == 2
    assert after.count("| idle | not yet measured |") == 1
    assert "longer than a line" in before
    assert "longer than a line" not in after


def test_each_row_says_of_which_run_it_is() -> None:
    first = report(row())
    second = Report(first.conditions | {"commit": "def"}, [Part("idle", (row(scenario="idle"),))])
    shown = page(first, second)
    assert "Run A: measured 2026-01-01 at commit `abc`" in shown
    assert "Run B: measured 2026-01-01 at commit `def`" in shown
    lines = [line for line in shown.splitlines() if "| a drain |" in line]
    assert [line.split("|")[-2].strip() for line in lines] == ["A", "B"]
    assert published(shown, [])[0] == shown


def test_a_scenario_that_stands_in_two_runs_is_kept_in_the_last_alone() -> None:
    """As on a page of before rows had marks."""
    old = "\n\n".join(
        f"Measured 2026-01-0{day} at commit `{commit}`: 3 rounds of {names} on 2 of 2 cores."
        for day, commit, names in (
            (1, "abc", "drain, idle"),
            (2, "def", "drain, lanes"),
            (3, "fed", "drain"),
        )
    )
    row_of_old = "| drain | a drain | 1 x |  | 1 x | one round | ≥ 1 | met |"
    shown = page(old=f"{old}\n\n{row_of_old}")
    assert "Run A: measured 2026-01-01 at commit `abc`: 3 rounds of idle on" in shown
    assert "Run B: measured 2026-01-02 at commit `def`: 3 rounds of lanes on" in shown
    assert "Run C: measured 2026-01-03 at commit `fed`: 3 rounds of drain on" in shown
    assert f"{row_of_old} C |" in shown
    assert published(shown, [])[0] == shown


def test_a_verdict_that_not_every_round_has_says_so() -> None:
    def verdict(*rows: Row) -> list[str]:
        return [cells[-1] for cells in table.lines(Part("drain", rows))]

    assert verdict(row(at_least(2)), row(at_least(3)), row(at_least(4)), row(at_least(11))) == [
        "met",
        "met, within the spread",
        "not met, within the spread",
        "not met",
    ]


def test_of_what_may_never_be_more_the_worst_round_counts() -> None:
    worst = Row("drain", "a drain", OURS, target=at_most(110), worst=True)
    assert (worst.value, worst.met, worst.within_spread) == (120, False, False)


def test_a_run_beside_other_work_says_so() -> None:
    loud = Report(report().conditions | {"load_before": 0.6}, [Part("drain", (row(),))])
    assert "was 0.60. So other work ran" in " ".join(page(loud).split())
    assert "other work" not in page(report(row()))


def test_a_run_on_smaller_sizes_measures_nothing() -> None:
    with pytest.raises(click.ClickException, match="full size"):
        page(report(row(at_least(3)), scale=0.1))


def test_a_run_names_its_servers_and_where_their_data_was() -> None:
    told = " ".join(page(report(row())).split())
    assert "PostgreSQL 18.4, Redis 6.2.14, redis-py 8.1.0." in told, "a server is no client"
    assert "Linux, data on ext4)" in told


def test_a_failure_stands_in_the_table() -> None:
    broken = Report(report().conditions, [Part("drain", failure="TimeoutError: no email")])
    assert "failed: TimeoutError: no email" in table.plain(broken)


def test_a_failure_replaces_no_figure() -> None:
    measured = page(report(row(at_least(3))))
    broken = Report(report().conditions, [Part("drain", failure="TimeoutError: no email")])
    assert published(measured, [broken])[0] == measured
    half = Report(report().conditions, [*broken.parts, Part("idle", (row(scenario="idle"),))])
    after = published(measured, [half])[0]
    assert "rounds of idle on" in after
    assert after.count("| a drain |") == 2
    assert "TimeoutError" not in after


def test_the_page_keeps_what_is_around_the_figures() -> None:
    new = page(report(row()), old="old")
    assert new.startswith("before\n")
    assert new.endswith("after\n")
    assert "old" not in new
    assert new.count("figures: begin") == 1


def test_the_plot_has_a_bar_for_each_target() -> None:
    rows = table.lines(Part("drain", (row(at_least(3)), row(at_most(0), None), row())))
    picture = plot.svg("Figures", rows)
    assert picture.count('text-anchor="end"') == 2
    assert published(page(report(row(at_least(3)))), [])[1].count('text-anchor="end"') == 1
