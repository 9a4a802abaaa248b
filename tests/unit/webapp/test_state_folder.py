"""The demo's folder is private, holds one demo at a time, and is never somebody else's."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from supervisor.options import ServerOptions

from tests.support.waiting import wait_until
from webapp.demo.programs import Ports, Sockets, supervisor_config, usual_port
from webapp.demo.redis_server import RedisServer
from webapp.demo.state_folder import (
    LOCK,
    Refused,
    own_folder,
    socket_folder,
    starting_alone,
)
from webapp.demo.tools import write_tools


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_private_and_begins_empty(tmp_path: Path) -> None:
    state = tmp_path / "demo"
    with own_folder(state):
        (state / "shop.db").write_text("orders")
        (state / "inbox").mkdir()
    state.chmod(0o755)
    with own_folder(state):
        assert mode(state) == 0o700
        assert sorted(os.listdir(state)) == [LOCK, "log"]


def test_two_demos_do_not_share_one(tmp_path: Path) -> None:
    state = tmp_path / "demo"
    with (
        own_folder(state),
        pytest.raises(Refused, match="/demo already"),
        own_folder(state),
    ):
        pytest.fail("both have it")


def test_a_supervisord_that_outlived_its_demo_holds_it(tmp_path: Path) -> None:
    state = tmp_path / "demo"
    with own_folder(state):
        pass
    waits = "import sys; sys.stdin.read()"
    command = [sys.executable, "-c", waits, str(state / "supervisord.conf")]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as left:
        (state / "supervisord.pid").write_text(f"{left.pid}\n")
        wait_until(psutil.Process(left.pid).cmdline, 60, "the process to have its command line")
        with pytest.raises(Refused, match=f"kill {left.pid}$"), own_folder(state):
            pytest.fail("it was emptied under a running supervisord")
        left.communicate()
    with own_folder(state):
        assert not (state / "supervisord.pid").exists()


def test_a_folder_with_other_files_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("three years")
    (tmp_path / "supervisord.conf").touch()  # such as /etc/supervisor has
    with pytest.raises(Refused, match="not a demo's"), own_folder(tmp_path):
        pytest.fail("it was emptied")
    with pytest.raises(Refused, match="not a folder"), own_folder(tmp_path / "thesis.txt"):
        pytest.fail("it was replaced")
    assert (tmp_path / "thesis.txt").read_text() == "three years"


def test_a_long_path_has_its_sockets_in_another_private_folder(tmp_path: Path) -> None:
    with socket_folder(Path("/srv/demo")) as short:
        assert short == Path("/srv/demo")
    with socket_folder(tmp_path / ("long" * 30)) as other:
        assert mode(other) == 0o700
        assert len(str(other / "supervisor.sock")) < 108
    assert not other.exists()


def test_a_planted_lock_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"outbox-demo-{os.getuid()}.lock").symlink_to(victim)
    with starting_alone(threading.Event()):
        assert victim.read_text() == "precious"


@pytest.mark.long
def test_its_tools_are_private_and_carry_the_demos_environment(tmp_path: Path) -> None:
    with own_folder(tmp_path / "it's a demo"):
        state = tmp_path / "it's a demo"
        environment = {"DATABASE_URL": f"sqlite:///{state}/shop.db", "SECRET_KEY": "k'ey"}
        write_tools(state, Sockets(folder=state), environment)
        assert [mode(state / name) for name in ("flask", "supervisorctl", "empty-redis")] == [
            0o700
        ] * 3
        command = [str(state / "flask"), "routes"]
        mine = {**os.environ, "DATABASE_URL": "sqlite:////nowhere/else.db"}
        answer = subprocess.run(
            command, env=mine, cwd="/", capture_output=True, text=True, check=False
        )
        assert "shop.place_order" in answer.stdout, answer.stderr


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for state in (tmp_path / "file" / "demo", tmp_path / ("n" * 300)):
        with (
            pytest.raises(Refused, match=r"cannot be used: .*Give another --state"),
            own_folder(state),
        ):
            pytest.fail("it was made")


@pytest.mark.parametrize("name", ["a ;b", "a #b", "a\nb"])
def test_a_path_that_supervisord_cannot_read_is_refused(tmp_path: Path, name: str) -> None:
    redis = RedisServer(name="x", command=("redis-server",), is_real=True)
    ports = Ports(web=1, flower=2, smtp=3)
    with pytest.raises(Refused, match="supervisord"):
        supervisor_config(tmp_path / name, ports, Sockets(folder=tmp_path), redis)


@pytest.mark.parametrize("name", ["a%2Fb", "a%b", "a;b#c d"])
def test_supervisord_reads_each_other_path_as_it_is(tmp_path: Path, name: str) -> None:
    state = tmp_path / name
    (state / "log").mkdir(parents=True)
    redis = RedisServer(name="x", command=(f"/{name}/redis-server",), is_real=True)
    config = tmp_path / "supervisord.conf"
    ports = Ports(web=1, flower=2, smtp=3)
    config.write_text(supervisor_config(state, ports, Sockets(folder=state), redis))
    read = ServerOptions()
    read.realize(["-c", str(config)])
    assert read.pidfile == str(state / "supervisord.pid")
    groups = {group.name: group.process_configs[0] for group in read.process_group_configs}
    assert {name: one.stdout_logfile for name, one in groups.items()} == {
        name: str(state / "log" / f"{name}.log") for name in groups
    }
    assert shlex.split(groups["redis"].command)[0] == f"/{name}/redis-server"


@pytest.mark.parametrize("given", ["abc", "70000", "-1", "80.0"])
def test_a_port_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(Refused, match="PORT must be a number from 1 to 65535"):
        usual_port({"PORT": given})
    assert usual_port({"PORT": ""}) == usual_port({}) == 5000
    assert usual_port({"PORT": "8000"}) == 8000
