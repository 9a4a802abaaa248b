"""The package is imported on Windows: no module needs what Python has on POSIX only for that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import asyncio, importlib, os, pkgutil, select, signal, socket, sys, time
import celery.bin.celery, flask_mail, kombu, pytest, sqlalchemy.ext.asyncio  # they know Windows

for module, names in {
    os: ["fork", "register_at_fork", "getuid", "geteuid", "sysconf", "sched_getaffinity"],
    select: ["poll", "epoll"],
    signal: ["SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGALRM", "setitimer", "pthread_sigmask"],
    socket: ["AF_UNIX", "MSG_DONTWAIT"],
    time: ["CLOCK_BOOTTIME", "clock_gettime"],
}.items():
    for name in names:
        delattr(module, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None

import outbox

names = [found.name for found in pkgutil.walk_packages(outbox.__path__, "outbox.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


@pytest.mark.long
def test_each_module_is_imported_without_the_names_that_windows_lacks() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
