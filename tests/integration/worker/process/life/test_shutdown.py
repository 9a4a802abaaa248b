"""A request to shut down is known in each process of the worker that got it, and in no other's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

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


_WORKER = """
import os, signal, sys, threading, time
from celery import Celery
from celery.signals import worker_ready
from outbox.worker.process.shutdown import requested

pool, how = sys.argv[1:]
app = Celery("app", broker="memory://")
app.conf.worker_soft_shutdown_timeout = 60
begun, begins = os.pipe()

@app.task
def batch():
    os.write(begins, b"1")
    end = time.monotonic() + 10
    while not requested() and time.monotonic() < end:
        time.sleep(0.01)
    os.write(1, b"told\\n" if requested() else b"not told\\n")

def stop():
    os.read(begun, 1)
    if how == "remote":
        app.control.shutdown()
    else:
        os.kill(os.getpid(), signal.SIGQUIT)

@worker_ready.connect
def ready(**_):
    batch.delay()
    threading.Thread(target=stop, daemon=True).start()

app.worker_main(["worker", "--pool", pool, "--concurrency", "1", "--without-gossip",
                 "--without-mingle", "--loglevel", "CRITICAL"])
"""


@pytest.mark.long
@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.parametrize("how", ["SIGQUIT", "remote"])
def test_a_soft_shutdown_and_one_by_remote_control_are_known_at_once(pool: str, how: str) -> None:
    """Celery first sleeps for the whole time that a soft one has, and then tells."""
    program = [sys.executable, "-c", _WORKER, pool, how]
    with subprocess.Popen(program, stdout=subprocess.PIPE, start_new_session=True) as worker:
        guard = threading.Timer(60.0, os.killpg, (worker.pid, signal.SIGKILL))
        guard.start()
        try:
            assert worker.stdout is not None
            lines = iter(worker.stdout.readline, b"")
            assert next((line for line in lines if b"told" in line), b"") == b"told\n"
        finally:
            guard.cancel()
            os.killpg(worker.pid, signal.SIGKILL)


_EMBEDDED = """
from celery import Celery
from celery.contrib.testing.worker import start_worker
from outbox.worker.process.shutdown import requested

app = Celery("app", broker="memory://")
with start_worker(app, pool="solo", perform_ping_check=False):
    pass
print(requested())
"""


@pytest.mark.long
def test_a_worker_that_a_test_runs_in_its_own_process_stops_nothing_behind_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _EMBEDDED], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split()[-1:] == ["False"], done.stderr
