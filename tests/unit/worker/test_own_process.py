"""A process is known by its boot, its id and its start, so that a later one is not taken for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outbox.domain.fleet import ProcessId
from outbox.store.schema.column_types import BOOT_LENGTH
from outbox.worker.process.own_process import has_ended, own_process, start_of, this_boot

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")


def ended(pid: int, start: int, boot: str | None = None) -> bool:
    return has_ended(ProcessId(this_boot() if boot is None else boot, pid, start))


def test_a_process_that_runs_has_not_ended_and_another_with_its_id_is_not_it() -> None:
    pid, start = os.getpid(), start_of(os.getpid())
    assert start > 0
    assert not ended(pid, start)
    assert ended(pid, start - 1), "the id came again"


def test_a_process_has_ended_when_it_is_killed_and_not_only_when_it_is_reaped() -> None:
    process = subprocess.Popen(["sleep", "60"])
    start = start_of(process.pid)
    assert not ended(process.pid, start)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
    assert ended(process.pid, start)
    process.wait()
    assert ended(process.pid, start)


def test_of_another_boot_or_namespace_nothing_is_known() -> None:
    kernel, _, namespaces = this_boot().partition(" ")
    assert kernel
    assert namespaces.replace(" ", "").isdecimal()
    assert len(this_boot()) <= BOOT_LENGTH
    assert not ended(1, 1, boot="another")
    assert not ended(1, 1, boot=f"{kernel} 1 1"), "another container's"
    assert not ended(1, 1, boot="")


def test_a_namespace_of_time_is_another_boot_because_it_shows_other_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / str(os.getpid())
    (own / "ns").mkdir(parents=True)
    (tmp_path / "sys").symlink_to("/proc/sys")
    (tmp_path / "self").symlink_to(own.name)
    (own / "ns/pid").symlink_to("pid:[4026531836]")
    monkeypatch.setattr("outbox.worker.process.own_process._PROC", tmp_path)
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert this_boot.__wrapped__() == f"{kernel} 4026531836", "an old kernel"
    (own / "ns/time").symlink_to("time:[4026532999]")
    assert this_boot.__wrapped__() == f"{kernel} 4026531836 4026532999"


def test_another_user_s_process_lives_though_it_may_not_be_signalled() -> None:
    assert not ended(1, start_of(1))


def test_a_forked_process_has_a_name_of_its_own() -> None:
    parent = own_process()
    assert parent == ProcessId(this_boot(), os.getpid(), start_of(os.getpid()))
    reads, writes = os.pipe()
    if not (child := os.fork()):
        os.write(writes, repr(own_process()).encode())
        os._exit(0)
    told = os.read(reads, 500).decode()
    assert told == repr(ProcessId(this_boot(), child, start_of(child)))
    os.waitpid(child, 0)


def test_of_a_namespace_that_sees_another_one_s_proc_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sys").symlink_to("/proc/sys")
    (tmp_path / "self").symlink_to("/proc/1")
    monkeypatch.setattr("outbox.worker.process.own_process._PROC", tmp_path)
    assert this_boot.__wrapped__() == ""
