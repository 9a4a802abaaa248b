"""The bench measures real servers, with their data on a disk, and tells what slowed them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from benchmarks import servers
from benchmarks.conditions import Stolen
from webapp.demo import redis_server


@pytest.fixture(autouse=True)
def _found_anew() -> Iterator[None]:
    redis_server.find.cache_clear()
    yield
    redis_server.find.cache_clear()


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a directory for the run's files; the mounts are those that `mounted` writes."""
    monkeypatch.setattr(servers, "OUTPUT", tmp_path / "bench")
    monkeypatch.setattr(servers, "_MOUNTS", tmp_path / "mounts")
    return tmp_path


def mounted(place: Path, *lines: str) -> None:
    (place / "mounts").write_text("".join(f"{line} rw 0 0\n" for line in lines))


def test_the_innermost_file_system_counts_and_of_two_over_each_other_the_last(place: Path) -> None:
    mounted(place, "/dev/a / ext4", f"tmpfs {place} tmpfs", f"/dev/b {place} xfs")
    assert servers.file_system(place / "bench") == "xfs"
    assert servers.file_system(Path("/elsewhere")) == "ext4"


def test_memory_is_no_disk(place: Path) -> None:
    mounted(place, "/dev/a / ext4", f"tmpfs {place} tmpfs")
    with pytest.raises(click.ClickException, match=r"memory \(tmpfs\)"):
        servers.check()


def test_a_model_of_redis_is_not_measured(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(place, "/dev/a / ext4")
    monkeypatch.setattr(servers, "UNPRIVILEGED", None)  # pytest's directories are its user's alone
    monkeypatch.setenv(redis_server.CHOICE, redis_server.FAKE)
    with pytest.raises(click.ClickException, match="needs a redis-server"):
        servers.check()


def test_nobody_must_reach_the_data_where_root_measures(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted(place, "/dev/a / ext4")
    place.chmod(0o700)
    monkeypatch.setattr(servers, "UNPRIVILEGED", 65534)
    with pytest.raises(click.ClickException, match="nobody cannot reach"):
        servers.check()


def test_what_the_host_took_away_meanwhile_is_told(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 10 0 10 30 7 0\ncpu0 1 2 3\n")
    stolen = Stolen(stat)
    stat.write_text("cpu  190 0 100 1300 10 0 10 390 7 0\ncpu0 1 2 3\n")
    assert stolen.share() == 0.36
    assert stolen.remark() == (
        "the host gave 36% of the processors' time to other machines meanwhile"
    )
    stat.write_text("cpu  190 0 100 23000 10 0 10 31 7 0\ncpu0 1 2 3\n")
    assert stolen.remark() == ""
    assert Stolen(tmp_path / "none").share() == 0.0
