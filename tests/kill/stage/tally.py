"""Counts what a matrix found, and says it in a line that a person can hold against the promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tests.kill.stage.judgement import Moment, Recording
from tests.kill.stage.shop import BATCH, WINDOW


@dataclass(kw_only=True)
class Tally:
    """The figures over all points of one matrix, and every point at which something was wrong."""

    recording: Recording
    title: str
    faults: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    repeated: int = 0
    unknown: int = 0
    most: int = 0  # emails of which one run came to have second copies
    wrong: list[str] = field(default_factory=list)

    def enter(
        self,
        fault: str,
        where: Moment | str,
        copies: Counter[str],
        statuses: Mapping[str, str],
        *,
        may_repeat: Collection[str] = (),
    ) -> None:
        """Hold the end of one run against the promise.

        `may_repeat` names a recipient once for each copy more than one that there may be, because a
        fault struck between a final dot and its record.
        """
        self.faults[fault] += 1
        where = f"{fault} at {where}: "
        for address, status in statuses.items():
            taken = not self.recording.refused(address)
            if taken and not copies[address] and status != "unknown":
                self.lost += 1
                self.wrong.append(f"{where}{address} is {status}, and has no copy")
            if copies[address] > 1 + Counter(may_repeat)[address]:
                self.wrong.append(f"{where}{address} has {copies[address]} copies")
            if status not in ("sent", "unknown") and status != self.recording.standing[address][0]:
                self.wrong.append(f"{where}{address} ended {status}")
        twice = {address for address, count in copies.items() if count > 1}
        emails = [mail for mail in BATCH if twice & set(mail)]
        self.repeated += len(twice)
        self.most = max(self.most, len(emails))
        self.unknown += sum(1 for mail in BATCH if statuses.get(mail[0]) == "unknown")

    def expect(self, where: Moment | str, what: str, found: object, expected: object) -> None:
        """Note a difference from what was foretold, to the last recipient."""
        if found != expected:
            self.wrong.append(f"at {where}: {what} {found}, not {expected}")

    def figures(self) -> str:
        """Return the line."""
        faults = ", ".join(f"{count} {fault}" for fault, count in self.faults.items())
        return (
            f"{self.title}: {len(self.recording.moments)} points; {faults}; lost {self.lost},"
            f" second copies {self.repeated}, of {self.most} emails at once (bound {WINDOW}),"
            f" unknown {self.unknown}"
        )

    def check(self) -> None:
        """Raise AssertionError where anything was wrong."""
        assert not self.wrong, f"{len(self.wrong)} wrong:\n" + "\n".join(self.wrong[:20])
        assert self.lost == 0
        assert self.most <= WINDOW
