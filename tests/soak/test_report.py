"""How many copies too many the faults can explain, and how that is told."""

from __future__ import annotations

import pytest

from tests.soak import report
from tests.soak.audit import Verdict
from tests.soak.facts import Facts
from tests.soak.plan import Fault

SLOTS = {"worker 1": 2, "worker 4": 12, "host 3": 14}


@pytest.mark.parametrize(
    ("kind", "target", "most"),
    [
        ("worker killed", "worker 1", 2 * 20),
        ("worker killed", "worker 4", 12 * 20),
        ("network cut", "host 3", 14 * 20),
        ("PostgreSQL killed", "database", 18 * 20),
        ("PostgreSQL read-only", "database", 0),
        ("SMTP drops", "smtp", 18),
        ("a domain refused", "class", 0),
    ],
)
def test_a_fault_explains_the_open_windows_of_those_whom_it_may_have_stopped(
    kind: str, target: str, most: int
) -> None:
    played = [Fault(at=1.0, kind=kind, target=target)] * 2
    bound = report.bound(played, window=20, slots_of=SLOTS.__getitem__, slots=18, dots=3)
    assert bound == 3 + 2 * most


def test_the_figures_tell_how_often_each_fault_and_each_class_was_met() -> None:
    facts = Facts(met={"PostgreSQL read-only": 7})
    for copies in (1, 5):
        facts.classes["a domain refused at 2"].note(copies)
    figures = report.figures(Verdict(), facts, [], recovery={}, died={})
    assert figures["met: PostgreSQL read-only"] == 7
    assert figures["met: a domain refused"] == 2
    assert figures["  others taken meanwhile: a domain refused"] == 4
