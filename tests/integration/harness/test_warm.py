"""What is forked by a warm process is as if it had been executed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.servers.warm import Warm
from tests.support.waiting import wait_until

_PROGRAM = """
import json, os, sys
told = {
    "leads": os.getsid(0) == os.getpid(),
    "directory": os.getcwd(),
    "environment": dict(os.environ),
    "arguments": sys.argv[1:],
    "name": __name__,
    "ours": sorted({name.split(".")[0] for name in sys.modules} & {"outbox", "tests", "webapp"}),
    "input": sys.stdin.read(),
    "open": [number for number in range(3, 100) if os.path.exists(f"/proc/self/fd/{number}")],
}
print(json.dumps(told))
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def start(tmp_path: Path, log: Path, program: str, *arguments: str) -> Warm:
    (tmp_path / "program.py").write_text(program)
    environment = {"ONLY": "this"}
    return Warm("program", arguments, directory=tmp_path, environment=environment, log=log)


def test_it_has_a_session_a_directory_and_an_environment_of_its_own(
    tmp_path: Path, log: Path
) -> None:
    warm = start(tmp_path, log, _PROGRAM, "one", "--two")
    assert warm.wait() == 0
    assert json.loads(log.read_text()) == {
        "leads": True,
        "directory": str(tmp_path),
        "environment": {"ONLY": "this"},
        "arguments": ["one", "--two"],
        "name": "__main__",
        "ours": [],
        "input": "",
        "open": [],
    }


def test_with_ours_it_has_imported_the_package_and_nothing_else_of_this_project(
    tmp_path: Path, log: Path
) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    assert Warm("program", [], directory=tmp_path, environment={}, log=log, ours=True).wait() == 0
    told = json.loads(log.read_text())
    assert (told["ours"], told["open"]) == (["outbox"], [])
    log.unlink()
    start(tmp_path, log, _PROGRAM).wait()  # another one, whose parent has a link to that one's
    assert json.loads(log.read_text())["open"] == []


def test_its_end_is_told_as_of_any_process(tmp_path: Path, log: Path) -> None:
    failed = start(tmp_path, log, "raise SystemExit(3)")
    assert (failed.wait(), failed.poll()) == (3, 3)
    broken = start(tmp_path, log, "1 / 0")
    assert broken.wait() == 1
    assert "ZeroDivisionError" in log.read_text()
    stopped = start(tmp_path, log, "import signal; print('here', flush=True); signal.pause()")
    wait_until(lambda: "here" in log.read_text(), 30, "it runs")
    assert stopped.poll() is None
    os.kill(stopped.pid, signal.SIGKILL)
    assert stopped.wait() == -signal.SIGKILL
