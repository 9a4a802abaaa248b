"""What befalls a process at one of its points, and what it tells of itself before."""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from kombu.exceptions import OperationalError

from tests.kill.stage.shop import Shop
from tests.kill.stage.tracer import Doubled, Point, ReplyLost


class Fault(StrEnum):
    """What happens at a point."""

    KILL = "kill"  # SIGKILL
    STOP = "stop"  # SIGSTOP, until somebody sends SIGCONT
    LOSE = "lose"  # the commit has landed, the client sees a lost connection
    REFUSE = "refuse"  # the broker is away: before the publish, or behind it
    DOUBLE = "double"  # published once more


class Clock:
    """The seconds by which the clocks have leapt, in memory that is shared with forked children."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    @property
    def offset(self) -> float:
        """The leaps so far."""
        value: float = struct.unpack("d", self._memory[:])[0]
        return value

    @offset.setter
    def offset(self, value: float) -> None:
        self._memory[:] = struct.pack("d", value)


@dataclass(kw_only=True)
class Witness:
    """Is told of every point. Notes them all, or at one of them does what was asked for."""

    shop: Shop
    clock: Clock
    report: int  # a file's descriptor
    fault: Fault | None
    at: int
    seen: int = 0
    points: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, point: Point) -> None:
        number, self.seen = self.seen, self.seen + 1
        if self.fault is None:
            self.points.append({**asdict(point), "standing": self.shop.standing()})
        elif number == self.at:
            self.tell(point=str(point), offset=self.shop.runtime.database.offset)
            self._befall()

    def tell(self, **facts: Any) -> None:
        """Write into the report, where it outlives this process."""
        os.write(self.report, json.dumps(facts).encode() + b"\n")

    def _befall(self) -> None:
        match self.fault:
            case Fault.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            case Fault.STOP:
                os.kill(os.getpid(), signal.SIGSTOP)
                self.shop.runtime.database.offset = self.clock.offset  # time has passed
            case Fault.LOSE:
                raise ReplyLost
            case Fault.REFUSE:
                raise OperationalError("the broker is away")
            case Fault.DOUBLE:
                raise Doubled
