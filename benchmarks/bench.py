"""What every scenario is given: durable servers, sizes, rounds, and a place for remarks."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import Self

import click

from benchmarks.results import Series
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.databases.postgres import Postgres


class Bench:
    """The surroundings of one scenario. Its servers start when they are first asked for."""

    def __init__(self, *, rounds: int, scale: float) -> None:
        self.rounds = rounds
        self.remarks: list[str] = []
        self._scale = scale
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @cached_property
    def postgres(self) -> Postgres:
        """A PostgreSQL with fsync on a disk, as it comes."""
        return self._stack.enter_context(Postgres())

    @cached_property
    def redis(self) -> RedisServer:
        """A Redis for the broker."""
        return self._stack.enter_context(RedisServer())

    def size(self, full: int, least: int = 1) -> int:
        """Return a size of the issue's table at this run's scale."""
        return max(least, round(full * self._scale))

    def remark(self, text: str) -> None:
        """Keep what a reader of the figures should know."""
        self.remarks.append(text)
        click.echo(f"    {text}")

    def rates(
        self,
        contestants: Mapping[str, Callable[[], float]],
        unit: str = "mails/s",
        rounds: int | None = None,
    ) -> dict[str, Series]:
        """Measure all contestants in turn, round after round; return a series of each.

        Each round goes in an order of its own, so that nobody always follows the same other one.
        """
        figures: dict[str, list[float]] = defaultdict(list)
        order = random.Random(1)
        for _ in range(rounds or self.rounds):
            names = list(contestants)
            order.shuffle(names)
            for name in names:
                figures[name].append(contestants[name]())
                click.echo(f"    {name:<24}{figures[name][-1]:>10.1f} {unit}")
        return {name: Series(name, unit, tuple(figures[name])) for name in contestants}
