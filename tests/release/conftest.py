"""The wheel and the sdist, an environment with the wheel and no extras, and servers."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.release.environments import ROOT, Environment, make, uv
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.databases.postgres import Postgres


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist and the wheel that is built from it, made once in a run."""
    run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        run = run.parent  # that of all processes
    folder = run / "built"
    with (run / "built.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            uv("build", "--quiet", "--out-dir", run / "building", ROOT)
            (run / "building").rename(folder)
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    """The wheel."""
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """An environment with the wheel, and nothing that it does not require."""
    environment = make(tmp_path_factory.mktemp("plain") / "env")
    environment.install(wheel)
    return environment


@pytest.fixture
def servers(postgres: Postgres, redis: RedisServer) -> Iterator[tuple[str, str]]:
    """The URLs of an empty database and of a broker."""
    url = postgres.new_database()
    yield url, redis.url
    postgres.drop_database(url)
