"""An app context that is pushed and never popped closes no session: a script or worker still tells.

Each test is a process of its own, because what tells is the end of a process, or of a task.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.one_database("sqlite"), pytest.mark.long]

_APP = """
import os
import sys
from celery import Celery
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from flask_mail import Message
from outbox import Outbox, OutboxMail

db, outbox, mail = SQLAlchemy(), Outbox(), OutboxMail()

def message():
    return Message("Hello", ["ada@x.example"], "Hi!", sender="shop@shop.example")

def create_app():
    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite:///" + sys.argv[1]
    db.init_app(app)
    outbox.init_app(app, db=db)
    mail.init_app(app)
    with app.app_context():
        db.create_all()
        outbox.enqueue(message(), tag="secret")
        db.session.commit()
    return app
"""

_PUSHED = "create_app().app_context().push()\n"

_WORKER = """
from celery.worker import state

celery = Celery("shop", broker="memory://")

@celery.task(name="shop.remind")
def remind(kind):
    if kind == "cancel":
        outbox.cancel(tag="secret")
    elif kind != "nothing":
        mail.send(message())
    if kind in ("commit", "rollback"):
        getattr(db.session, kind)()
    if kind == "fail":
        raise RuntimeError("failed")
    if kind == "eager":
        remind.apply(args=["open"])
        db.session.commit()

@celery.task(name="shop.stop")
def stop():
    state.should_stop = 0

def work(*kinds):
    for kind in kinds:
        remind.delay(kind)
    stop.delay()
    try:
        celery.Worker(pool="solo", loglevel="WARNING", without_mingle=True).start()
    except SystemExit:
        pass
"""

_LOST = (
    "{emails} discarded: the process ends, and the session was neither committed nor closed, as"
    " where an app context is pushed and not popped. That is right after an error or a rollback;"
    " otherwise call its commit() after enqueue"
)
_OPEN = (
    "the task shop.remind has ended, and the session in which it enqueued is still open with"
    " {emails}: "
)


def lines(tmp_path: Path, script: str, status: int = 0) -> list[str]:
    """Run a script in a process of its own; return what the outbox logs there of sessions."""
    command = [sys.executable, "-c", _APP + script, str(tmp_path / "shop.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    assert "x.example" not in done.stderr
    return [
        line[line.index("outbox: ") + 8 :]
        for line in done.stderr.splitlines()
        if "outbox: " in line and "this worker gets no task" not in line  # it has its own only
    ]


@pytest.mark.parametrize(
    ("ending", "status"), [("", 0), ("sys.exit(3)", 3), ("raise RuntimeError('failed')", 1)]
)
def test_a_script_that_never_commits_tells_at_its_end(
    tmp_path: Path, ending: str, status: int
) -> None:
    sending = "mail.send(message())\nmail.send(message())\n"
    assert lines(tmp_path, _PUSHED + sending + ending, status) == [
        _LOST.format(emails="2 emails were")
    ]


def test_it_tells_too_of_emails_that_it_withdrew_in_vain(tmp_path: Path) -> None:
    [line] = lines(tmp_path, _PUSHED + "outbox.cancel(tag='secret')\n")
    assert line.startswith("1 email is not withdrawn after all: the process ends, and the session")


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_script_that_commits_or_rolls_back_tells_nothing(tmp_path: Path, ending: str) -> None:
    assert lines(tmp_path, f"{_PUSHED}mail.send(message())\ndb.session.{ending}()\n") == []


def test_a_session_that_nobody_holds_any_more_is_told_at_the_end(tmp_path: Path) -> None:
    script = """
import gc
from sqlalchemy.orm import Session

def lose():
    outbox.enqueue(message(), session=Session(db.engine))
    gc.collect()

"""
    dropped = "1 email was discarded: the session was dropped, neither committed nor closed."
    [line] = lines(tmp_path, f"{script}{_PUSHED}lose()\ngc.collect()\n")
    assert line.startswith(dropped)
    [line] = lines(tmp_path, f"{script}{_PUSHED}gc.disable()\nlose()\n")  # collected by nobody
    assert line.startswith("1 email was discarded: the ")


def test_a_forked_child_that_drops_its_parents_session_has_lost_nothing(tmp_path: Path) -> None:
    script = """
import gc
from sqlalchemy.orm import Session

session = Session(db.engine)
outbox.enqueue(message(), session=session)
held = session.connection()  # SQLite's file is the parent's, too: the child leaves it alone
if os.fork():
    os.wait()
    session.commit()
else:
    del session
    gc.collect()
    with app.app_context():
        pass
    os._exit(0)
"""
    assert lines(tmp_path, f"app = create_app()\napp.app_context().push()\n{script}") == []


def test_a_session_that_was_closed_is_told_once(tmp_path: Path) -> None:
    script = "with create_app().app_context():\n    mail.send(message())\n"
    [line] = lines(tmp_path, script)
    assert line.startswith("1 email was discarded: the session was closed without a commit.")


def test_a_forked_child_does_not_tell_of_its_parents_session(tmp_path: Path) -> None:
    script = (
        f"{_PUSHED}mail.send(message())\nif os.fork():\n    os.wait()\n    db.session.commit()\n"
    )
    assert lines(tmp_path, script) == []


_CHILD = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

fork = multiprocessing.get_context("fork")

def work(ending):
    db.engine.dispose(close=False)  # its connections are the parent's
    mail.send(message())
    if ending == "fail":
        raise RuntimeError("failed")
    if ending == "commit":
        db.session.commit()
    if ending == "exit":
        sys.exit(3)

def run(ending):
    child = fork.Process(target=work, args=[ending])
    child.start()
    child.join()

"""


@pytest.mark.parametrize(
    ("run", "emails"),
    [
        ("run('')", 1),
        ("run('fail')", 1),
        ("run('exit')", 1),
        ("run('commit')", 0),
        ("with ProcessPoolExecutor(1, fork) as pool: [*pool.map(work, ['', ''])]", 2),
        ("run = fork.Process(target=run, args=[''])\nrun.start()\nrun.join()", 1),
    ],
)
def test_a_child_of_multiprocessing_tells_at_its_end(tmp_path: Path, run: str, emails: int) -> None:
    """Python ends it without the functions of `atexit`."""
    told = [_LOST.format(emails=f"{emails} email{'s were' if emails > 1 else ' was'}")]
    assert lines(tmp_path, f"{_CHILD}{_PUSHED}{run}\n") == (told if emails else [])


def test_so_does_one_that_makes_its_app_itself(tmp_path: Path) -> None:
    """The parent has not imported the outbox."""
    script = """
import multiprocessing
import sys

def work():
    exec(sys.argv[2])

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
"""
    command = [sys.executable, "-c", script, str(tmp_path / "shop.db")]
    child = f"{_APP}{_PUSHED}mail.send(message())\n"
    child = f"exec({child!r}, globals())"
    done = subprocess.run([*command, child], capture_output=True, text=True, timeout=60)
    assert "1 email was discarded: the process ends" in done.stderr


def test_the_end_of_a_task_tells_that_its_session_is_open(tmp_path: Path) -> None:
    work = "work('open', 'nothing', 'open', 'commit', 'fail', 'rollback')\n"
    found = lines(tmp_path, _WORKER + _PUSHED + work)
    assert [line.partition("a later commit")[0] for line in found] == [
        _OPEN.format(emails="1 email"),
        _OPEN.format(emails="2 emails"),
        _OPEN.format(emails="1 email"),  # the third task's commit has sent those of the first two
    ]


def test_after_a_task_the_workers_end_tells_what_became_of_them(tmp_path: Path) -> None:
    [at_the_task, at_the_end] = lines(tmp_path, _WORKER + _PUSHED + "work('open')\n")
    assert at_the_task.endswith(
        "a later commit sends it, and without one it is lost. Call commit() in the task, and write"
        " with app.app_context(): in the place of a context that is pushed"
    )
    assert at_the_end == _LOST.format(emails="1 email was") + " in the task shop.remind"


def test_the_end_of_a_task_tells_of_what_it_withdrew(tmp_path: Path) -> None:
    [at_the_task, at_the_end] = lines(tmp_path, _WORKER + _PUSHED + "work('cancel')\n")
    assert at_the_task == (
        "the task shop.remind has ended, and the session in which it withdrew 1 email is still"
        " open: without a commit it goes out all the same. Call commit() in the task"
    )
    assert at_the_end.startswith("1 email is not withdrawn after all: the process ends")


def test_an_app_that_commits_at_the_end_of_each_task_is_told_nothing(tmp_path: Path) -> None:
    own = """
from celery.signals import task_postrun

@task_postrun.connect(weak=False)
def commit(**_):
    db.session.commit()
"""
    assert lines(tmp_path, _WORKER + own + _PUSHED + "work('open')\n") == []


def test_a_task_that_runs_within_another_ones_transaction_tells_nothing(tmp_path: Path) -> None:
    assert lines(tmp_path, _WORKER + _PUSHED + "work('eager')\n") == []
