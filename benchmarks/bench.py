"""What every scenario gets: durable servers, sizes, rounds, and a list for remarks."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import Self

import click

from benchmarks import servers
from benchmarks.results import Series
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.databases.postgres import Postgres


class PeerFailed(Exception):
    """A peer cannot be measured. All others can, so only its own rows are missing."""


class Bench:
    """The environment of one scenario. Its servers start when they are first used."""

    def __init__(self, *, rounds: int, scale: float) -> None:
        self.rounds = rounds
        self.remarks: list[str] = []
        self._scale = scale
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def postgres(self) -> Postgres:
        """A PostgreSQL with its default settings: fsync is on, and the data is on a disk."""
        return self._stack.enter_context(servers.postgres())

    @cached_property
    def redis(self) -> RedisServer:
        """A Redis for the broker."""
        return self._stack.enter_context(RedisServer())

    def size(self, full: int, least: int = 1) -> int:
        """Return the size `full` at this run's scale, and at least `least`."""
        return max(least, round(full * self._scale))

    def remark(self, text: str) -> None:
        """Note and print a remark for the reader of the figures."""
        self.remarks.append(text)
        click.echo(f"    {text}")

    def rates(
        self,
        contestants: Mapping[str, Callable[[], float]],
        unit: str = "emails/s",
        rounds: int | None = None,
    ) -> dict[str, Series]:
        """Measure all contestants in turn, round after round; return a series for each.

        Each round has a random order, so that no contestant always follows the same other one. A
        peer that fails has no series, and takes no further turn.
        """
        figures: dict[str, list[float]] = {name: [] for name in contestants}
        order = random.Random(1)
        for _ in range(rounds or self.rounds):
            names = list(figures)
            order.shuffle(names)
            for name in names:
                try:
                    figures[name].append(contestants[name]())
                except PeerFailed as error:
                    del figures[name]
                    self.remark(f"{name} failed, and its rows are missing: {error}")
                else:
                    click.echo(f"    {name:<24}{figures[name][-1]:>10.1f} {unit}")
        return {name: Series(name, unit, tuple(taken)) for name, taken in figures.items()}
