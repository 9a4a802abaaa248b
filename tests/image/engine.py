"""The Docker engine: the one that runs, or one of our own, whose images are made at home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.image import host_network
from tests.support.waiting import wait_until

START = 60.0
STOP = 60.0


class NotAtHand(Exception):
    """Says in one line why the image cannot be run here."""


def check() -> None:
    """Raise NotAtHand unless an engine answers, and its command has `compose`."""
    _check_programs("docker")
    answer = _docker("info", "--format", "{{.ServerVersion}}")
    if answer.returncode or not answer.stdout.strip():
        raise NotAtHand(
            "no Docker engine answers; root can start one of its own:"
            " python -m tests.image --own (needs dockerd and debootstrap)"
        )
    _check_compose()


def version() -> str:
    """Return the versions of the engine and of compose, and how images are stored."""
    engine = _docker("info", "--format", "Docker {{.ServerVersion}}, {{.Driver}}").stdout.strip()
    return f"{engine}; Compose {_docker('compose', 'version', '--short').stdout.strip()}"


@contextmanager
def own(directory: Path | None) -> Iterator[None]:
    """Run an engine that shares nothing with another one, and point `docker` to it.

    A `directory` is kept, with the images in it. Otherwise a temporary one is removed at the end.
    """
    if os.geteuid() != 0:
        raise NotAtHand("an engine of one's own needs root")
    _check_programs("docker", "dockerd", "debootstrap")
    _check_compose()
    with (
        tempfile.TemporaryDirectory(prefix="outbox-engine-", ignore_cleanup_errors=True) as state,
        host_network.restored(),
    ):
        process = _start(Path(state), (directory or Path(state) / "data").resolve())
        os.environ["DOCKER_HOST"] = f"unix://{state}/docker.sock"
        try:
            wait_until(lambda: _answers(process, Path(state)), START, "dockerd")
            yield
        finally:
            _end(process)


def _start(state: Path, data: Path) -> subprocess.Popen[bytes]:
    # The image store of new installations. It is the harder case: a build has a time of its own.
    settings: dict[str, object] = {"features": {"containerd-snapshotter": True}}
    if init := shutil.which("tini-static"):
        settings["init-path"] = init
    (state / "daemon.json").write_text(json.dumps(settings))
    data.mkdir(parents=True, exist_ok=True)
    with (state / "dockerd.log").open("wb") as log:
        return subprocess.Popen(
            [
                "dockerd", "--config-file", state / "daemon.json", "--data-root", data,
                "--host", f"unix://{state}/docker.sock", "--exec-root", state / "exec",
                "--pidfile", state / "docker.pid",
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,  # a Ctrl-C ends the containers first
        )  # fmt: skip


def _answers(process: subprocess.Popen[bytes], state: Path) -> bool:
    if process.poll() is not None:
        lines = (state / "dockerd.log").read_text(errors="replace").splitlines()
        raise NotAtHand(f"dockerd cannot run here: {lines[-1] if lines else 'it said nothing'}")
    return _docker("info", "--format", "{{.ServerVersion}}").returncode == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _check_programs(*names: str) -> None:
    for name in names:
        if shutil.which(name) is None:
            raise NotAtHand(f"{name} is not on the path")


def _check_compose() -> None:
    if _docker("compose", "version").returncode:
        raise NotAtHand("`docker compose` is missing (Compose 2 is a plugin of docker)")


def _docker(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
