"""What goes wrong when, and to whom: drawn from a seed, so that a plan can be repeated."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field

from tests.soak.classes import REPLIES, Trait

SERVERS = ("database", "broker", "smtp")
"""What a host reaches over links of its own."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of fault: how often beside the others, how long, and whom it befalls."""

    weight: int
    target: str  # "worker", "beat", "web", "host" (one of each host), or a server's name
    seconds: tuple[float, float] = (0.0, 0.0)  # the shortest and the longest
    kill: bool = False  # counted as a kill, not as a fault
    doubts: str = ""  # whose open windows it may leave in doubt: "host", "all", "wire"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault: `at` seconds after the start, for `seconds`."""

    at: float
    kind: str
    target: str
    host: int = -1  # -1: none in particular
    seconds: float = 0.0
    detail: dict[str, float | str] = field(default_factory=dict)

    def __str__(self) -> str:
        detail = " ".join(f"{name}={value}" for name, value in self.detail.items())
        return f"{self.at:7.1f} s  {self.kind} {self.target} {self.seconds:.1f} s {detail}".rstrip()


FROZEN = "PostgreSQL frozen"

KINDS: dict[str, Kind] = {
    "worker killed": Kind(weight=12, target="worker", seconds=(0.0, 3.0), kill=True, doubts="host"),
    "worker's child killed": Kind(weight=8, target="worker", kill=True, doubts="host"),
    "worker stopped and started": Kind(weight=4, target="worker", doubts="host"),
    "worker frozen": Kind(weight=5, target="worker", seconds=(2.0, 30.0), doubts="host"),
    "beat killed": Kind(weight=5, target="beat", seconds=(0.0, 3.0), kill=True),
    "web killed": Kind(weight=8, target="web", seconds=(0.0, 3.0), kill=True),
    "Redis emptied": Kind(weight=6, target="broker"),
    "Redis restarted": Kind(weight=4, target="broker", seconds=(0.0, 3.0)),
    "Redis frozen": Kind(weight=4, target="broker", seconds=(1.0, 6.0)),
    "PostgreSQL restarted": Kind(weight=4, target="database", seconds=(0.0, 2.0), doubts="all"),
    "PostgreSQL killed": Kind(weight=3, target="database", seconds=(0.0, 2.0), doubts="all"),
    "PostgreSQL's connections cut": Kind(weight=6, target="database", doubts="all"),
    # Every worker lives on and keeps what it knows: no doubt comes of it.
    "PostgreSQL read-only": Kind(weight=4, target="database", seconds=(1.0, 8.0)),
    FROZEN: Kind(weight=3, target="database", seconds=(1.0, 6.0), doubts="all"),
    "SMTP 4xx": Kind(weight=5, target="smtp", seconds=(1.0, 3.0)),
    "SMTP 5xx": Kind(weight=5, target="smtp", seconds=(1.0, 3.0)),
    "SMTP 421": Kind(weight=3, target="smtp", seconds=(1.0, 3.0)),
    "SMTP drops": Kind(weight=6, target="smtp", seconds=(1.0, 3.0), doubts="wire"),
    "SMTP hangs": Kind(weight=4, target="smtp", seconds=(1.0, 3.0), doubts="wire"),
    "SMTP frozen": Kind(weight=2, target="smtp", seconds=(1.0, 10.0), doubts="wire"),
    "SMTP restarted": Kind(weight=4, target="smtp", seconds=(0.0, 3.0), doubts="wire"),
    "a domain refused": Kind(weight=4, target="class", seconds=(3.0, 12.0)),
    "a sender refused": Kind(weight=4, target="class", seconds=(3.0, 12.0)),
    "a size refused": Kind(weight=4, target="class", seconds=(3.0, 12.0)),
    "network cut": Kind(weight=8, target="host", seconds=(0.0, 5.0), doubts="host"),
    "network silent": Kind(weight=6, target="host", seconds=(1.0, 12.0), doubts="host"),
    "network unplugged": Kind(weight=4, target="host", seconds=(1.0, 12.0), doubts="host"),
    "clock off": Kind(weight=5, target="clock"),
}
CHILD = "worker's child killed"
"""Only each host's own worker has children: those beyond are of threads."""
TRAITS: dict[str, Trait] = {
    "a domain refused": "domain",
    "a sender refused": "sender",
    "a size refused": "size",
}
_OF_A_HOST = ("worker", "beat", "web", "host", "clock")
EVERY = 3.0
"""Seconds from fault to fault: two minutes have room for each kind, whatever the seed."""

_NEAREST, _FARTHEST = 60, 15 * 60
"""Seconds: how wrong a host's clock is at least and at most."""


def draw(
    seed: int,
    seconds: float,
    *,
    every: float,
    hosts: int,
    beats: int,
    workers: int,
    kinds: Collection[str] = KINDS,
) -> list[Fault]:
    """Draw the faults of so many seconds, one in `every` on average; each kind comes once first.

    A target is hit again only once it has been mended, and everything is mended before the end.
    """
    chance = random.Random(seed)
    first = [kind for kind in KINDS if kind in kinds]
    weights = [KINDS[kind].weight for kind in first]
    turn = chance.sample(first, len(first))
    faults: list[Fault] = []
    busy: dict[str, float] = {}
    at = every
    while at < seconds - every:
        kind = turn[0] if turn else chance.choices(first, weights)[0]
        places = {"worker": workers, "beat": beats}.get(KINDS[kind].target, hosts)
        fault = _draw_one(chance, kind, at, hosts=hosts if kind == CHILD else places)
        if fault.at + fault.seconds <= seconds and busy.get(fault.target, 0.0) <= at:
            faults.append(fault)
            busy[fault.target] = fault.at + fault.seconds + 2 * every
            at += every * chance.uniform(0.5, 1.5)
            turn = turn[1:]
        else:
            turn = turn[1:] + turn[:1]  # another one, and this one later
            at += 0.1
    return faults


def _draw_one(chance: random.Random, name: str, at: float, *, hosts: int) -> Fault:
    kind = KINDS[name]
    host = chance.randrange(hosts) if kind.target in _OF_A_HOST else -1
    detail: dict[str, float | str] = {}
    match name:
        case "network cut" | "network silent":
            # Half of them between a host and the database, where the most depends on it.
            detail["server"] = chance.choice(("database", *SERVERS))
        case "a domain refused" | "a sender refused" | "a size refused":
            trait = TRAITS[name]
            detail["trait"] = trait
            detail["place"], detail["reply"] = chance.choice(REPLIES[trait])
        case "clock off":
            detail["offset"] = chance.choice((-1, 1)) * chance.randint(_NEAREST, _FARTHEST)
        case "SMTP 4xx" | "SMTP 5xx" | "SMTP 421" | "SMTP drops" | "SMTP hangs":
            detail["share"] = round(chance.uniform(0.02, 0.2), 2)
    if name == "SMTP hangs":
        detail["silence"] = round(chance.uniform(2.0, 12.0), 1)
    if name == "PostgreSQL's connections cut":
        detail["share"] = chance.choice((0.3, 1.0))
    return Fault(
        at=round(at, 2),
        kind=name,
        target=kind.target if host < 0 else f"{kind.target} {host + 1}",
        host=host,
        seconds=round(chance.uniform(*kind.seconds), 1),
        detail=detail,
    )
