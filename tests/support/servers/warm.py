"""Starts Python programs at once: a process that has imported their libraries forks them.

`python -m celery` takes seconds of a core to import what it needs, and most of that is the same
each time. What is started here runs as `python -m` runs it, in a session, a directory and an
environment of its own. None of this project's code is imported before: it may be another version's.
Where it is this version's, and the order of imports is not what is tested, `ours` saves its import
as well: a first fork imports it, and forks those.

This file is both sides: imported it is the test's, executed it is the process that forks.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

_LIBRARIES = (
    "alembic.command", "celery.app.amqp", "celery.app.control", "celery.app.events",
    "celery.app.log", "celery.apps.beat", "celery.apps.worker", "celery.bin.celery",
    "celery.concurrency.prefork", "celery.concurrency.thread", "celery.worker.autoscale",
    "celery.worker.components", "celery.worker.consumer", "celery.worker.strategy", "flask.cli",
    "flask_limiter.commands", "flask_mail", "flask_migrate", "flask_sqlalchemy.cli", "html.parser",
    "idna", "kombu.transport.pyamqp", "kombu.transport.redis", "psycopg", "pymysql",
    "sqlalchemy.dialects.mssql", "sqlalchemy.dialects.mysql", "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite", "sqlite3",
)  # fmt: skip

_lock = threading.Lock()
_parent: subprocess.Popen[str] | None = None
"""The process that forks."""


class Warm:
    """A process that was forked, with what the tests need of a `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str],
        log: Path,
        ours: bool = False,
    ) -> None:
        self.returncode: int | None = None
        self._ours = ours
        self.pid: int = _ask(
            ours,
            do="start",
            module=module,
            arguments=arguments,
            directory=str(directory),
            environment=dict(environment),
            log=str(log),
        )

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while it runs."""
        return self._end("poll")

    def wait(self) -> int:
        """Wait for its end; return its exit status."""
        status = self._end("wait")
        assert status is not None
        return status

    def _end(self, how: str) -> int | None:
        if self.returncode is None:
            self.returncode = _ask(self._ours, do=how, pid=self.pid)
        return self.returncode


def _ask(ours: bool, **job: Any) -> Any:
    global _parent
    with _lock:
        if _parent is None:
            _parent = _start()
        assert _parent.stdin is not None
        assert _parent.stdout is not None
        _parent.stdin.write(json.dumps({**job, "ours": ours}) + "\n")
        _parent.stdin.flush()
        line = _parent.stdout.readline()
        assert line, "the process that forks has ended"
        return json.loads(line)


def _start() -> subprocess.Popen[str]:
    bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    # -P: the folder of this file is no place to import from.
    command = [sys.executable, "-P", __file__]
    pipe = subprocess.PIPE
    parent = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, env=bare, text=True, start_new_session=True
    )
    atexit.register(parent.communicate)  # its input is at an end, and so is it
    return parent


_links: list[socket.socket] = []
"""Between the process that forks and the one that has imported `outbox`: no other may hold them."""


def _main() -> None:
    for name in _LIBRARIES:
        import_module(name)
    gc.freeze()  # memory that no child's collector touches is never copied
    _obey(sys.stdin, sys.stdout, is_ours=False)


def _obey(jobs: TextIO, answers: TextIO, *, is_ours: bool) -> None:
    """Do what is asked until nobody asks. In a child that was started, run its program instead."""
    ours: tuple[int, TextIO] | None = None
    for line in jobs:
        job = json.loads(line)
        if job["ours"] and not is_ours:
            ours = ours or _fork_ours()
            if ours is None:
                return
            ours[1].write(line)
            ours[1].flush()
            answer = json.loads(ours[1].readline())
        elif job["do"] == "start":
            answer = _fork(job)
            if answer is None:
                runpy.run_module(job["module"], run_name="__main__", alter_sys=True)
                return
        else:
            answer = _status(job["pid"], os.WNOHANG if job["do"] == "poll" else 0)
        print(json.dumps(answer), file=answers, flush=True)
    if ours is not None:
        _links.pop().shutdown(socket.SHUT_RDWR)
        os.waitpid(ours[0], 0)


def _fork_ours() -> tuple[int, TextIO] | None:
    """Fork the process that imports `outbox`, and return how to ask it; in that one, None."""
    link, other = socket.socketpair()
    pid = os.fork()
    if pid:
        other.close()
        _links.append(link)
        return pid, link.makefile("rw")
    link.close()
    _links.append(other)
    nothing = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1):
        os.dup2(nothing, target)
    os.close(nothing)
    import_module("outbox")
    gc.freeze()
    asked = other.makefile("rw")
    _obey(asked, asked, is_ours=True)
    return None


def _fork(job: dict[str, Any]) -> int | None:
    """Return the child's process id once it leads a session of its own; in the child, None."""
    ready, done = os.pipe()
    pid = os.fork()
    if pid:
        os.close(done)
        os.read(ready, 1)
        os.close(ready)
        return pid
    os.setsid()
    os.close(ready)
    os.close(done)
    _become(job)
    return None


def _become(job: dict[str, Any]) -> None:
    """Take on what an executed program would have been given."""
    for link in _links:
        os.close(link.detach())
    log = os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  (what was read ahead was its parent's)
    for stream in (sys.stdout, sys.stderr):
        # As with PYTHONUNBUFFERED: a test waits for what is printed.
        stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
    os.chdir(job["directory"])
    os.environ.clear()
    os.environ.update(job["environment"])
    more = os.environ.get("PYTHONPATH", "")
    sys.path[:0] = [job["directory"], *filter(None, more.split(os.pathsep))]
    sys.argv = [job["module"], *job["arguments"]]


def _status(pid: int, options: int) -> int | None:
    found, status = os.waitpid(pid, options)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    _main()
