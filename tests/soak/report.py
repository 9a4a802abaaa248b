"""What the soak prints at its end, and keeps as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.soak.audit import Verdict
from tests.soak.facts import Facts
from tests.soak.plan import KINDS, Fault

_SHOWN = 5


def bound(
    played: Sequence[Fault],
    *,
    window: int,
    slots_of: Callable[[str], int],
    slots: int,
    dots: int,
) -> int:
    """Return how many copies too many these faults can explain.

    Whoever may have been stopped between final dot and record leaves at most a window in doubt: a
    worker, those of one host, or all slots. Where only the reply was lost it is one email a
    connection. Added are the final dots that the server itself notes to have left unanswered.
    """

    def most(fault: Fault) -> int:
        match KINDS[fault.kind].doubts:
            case "host":
                return slots_of(fault.target) * window
            case "all":
                return slots * window
            case "wire":
                return slots
        return 0

    return dots + sum(map(most, played))


def figures(
    verdict: Verdict,
    facts: Facts,
    played: Sequence[Fault],
    *,
    recovery: Mapping[str, float],
    died: Mapping[str, int],
) -> dict[str, Any]:
    """Return all that is printed."""
    kinds = Counter(fault.kind for fault in played)
    kills = sum(count for kind, count in kinds.items() if KINDS[kind].kill)
    outcomes = Counter(facts.told.values())
    return {
        "orders committed": len(facts.orders),
        "orders rolled back": outcomes["rolled back"] + outcomes["failed"],
        "commits of unknown outcome": outcomes["unknown"] + outcomes["begun"],
        "emails": verdict.emails,
        **{f"  {status}": count for status, count in facts.status.items()},
        "copies that the server took": verdict.copies,
        "kills": kills,
        "faults": sum(kinds.values()) - kills,
        **{f"  {kind}": kinds[kind] for kind in KINDS if kinds[kind]},
        **{f"met: {what}": times for what, times in facts.met.items()},
        **_classes(facts),
        "processes that ended by themselves": sum(died.values()),
        "leases rescued": facts.counters.get("leases_rescued", 0),
        "lost": verdict.lost,
        "repeated": verdict.repeated,
        "in doubt": verdict.doubts,
        "bound": verdict.bound,
        **recovery,
    }


def _classes(facts: Facts) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, refused in sorted(facts.refused_classes().items()):
        found[f"met: {kind}"] = refused.times
        found[f"  others taken meanwhile: {kind}"] = refused.taken
    return found


def table(figures: Mapping[str, Any]) -> str:
    """Return the figures as lines."""
    width = max(map(len, figures))
    return "\n".join(f"{name:{width}}  {_number(value):>10}" for name, value in figures.items())


def findings(verdict: Verdict) -> str:
    """Return what did not hold, with some cases each."""
    lines: list[str] = []
    for sentence, cases in verdict.findings.items():
        lines.append(f"NOT SO: {sentence}: {len(cases)}")
        lines += [f"    {case}" for case in cases[:_SHOWN]]
    return "\n".join(lines)


def save(path: Path, **everything: Any) -> None:
    """Keep it as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(everything, indent=2, default=str) + "\n")


def _number(value: Any) -> str:
    return f"{value:,.1f} s" if isinstance(value, float) else f"{value:,}"
