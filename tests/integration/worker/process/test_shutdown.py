"""A request to shut down is known in each process of the worker that got it, and in no other's."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import os
import sys
from celery.signals import worker_init, worker_shutting_down
from outbox.worker.process.shutdown import requested

def forked(run):
    pid = os.fork()
    if pid == 0:
        os._exit(run())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def asked_to_stop():
    worker_init.send(sender=None)
    ready, asked = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        os._exit(requested())
    worker_shutting_down.send(sender=None)
    os.write(asked, b"1")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def other():
    worker_init.send(sender=None)
    return requested()

print(forked(asked_to_stop), int(requested()), forked(other))
"""


@pytest.mark.long
def test_two_workers_that_one_process_has_forked_do_not_stop_each_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["1", "0", "0"], "")
