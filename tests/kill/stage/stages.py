"""Stages that one test uses after another: to warm one up takes as long as several kills."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.kill.stage.stage import Stage, staged
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.databases import sqlite
from tests.support.servers.databases.lending import LendingServer


class Stages:
    """Keeps each stage, with its nursery and its recordings, until it is closed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open = ExitStack()
        self._databases: dict[str, str] = {}
        self._stages: dict[tuple[str, str, bool, bool], Stage] = {}

    def database(self, kind: str, server: LendingServer | None) -> str:
        """Return the URL of the database of this kind, on its server where it has one."""
        if kind not in self._databases:
            made = server.new_database() if server else sqlite.new_database(self._directory)
            self._databases[kind] = made
        return self._databases[kind]

    @contextmanager
    def lend(
        self, url: str, redis: RedisServer, *, pipelining: bool, hold: bool
    ) -> Iterator[Stage]:
        """Lend a stage on which nothing is left of the tests before, and no connection is open."""
        key = (url, redis.url, pipelining, hold)
        if key not in self._stages:
            made = staged(url, redis, pipelining=pipelining, hold=hold)
            self._stages[key] = self._open.enter_context(made)
        stage = self._stages[key]
        stage.clear_whole()
        try:
            yield stage
        finally:
            stage.shop.dispose()

    def close(self) -> None:
        """Close all stages and forget the databases; the next test has new ones."""
        self._stages.clear()
        self._databases.clear()
        self._open.close()
