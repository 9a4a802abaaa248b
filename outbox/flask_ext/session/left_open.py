"""Tells of emails in a session that nobody closed at the end of a request, a task or the process.

Each of these ends also tells of sessions that the garbage collector has dropped.

A thread's session outlives the request. What an aborted request wrote in it is then committed by
the thread's next request, with its emails. The session of an app context that is pushed and never
popped outlives the task, and ends with the process, which rolls it back. It also outlives the
requests that come while it is pushed, as where a module pushes it and a server imports that. Then
they share one session, and no teardown function of an app context runs behind them.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing.util
from collections.abc import Sequence
from typing import Any

from celery import Task
from celery.signals import task_postrun, worker_init, worker_process_init
from flask import (
    Flask,
    appcontext_popped,
    appcontext_pushed,
    g,
    has_app_context,
    request_tearing_down,
)
from flask import globals as flask_globals
from sqlalchemy.orm import scoped_session
from sqlalchemy.util import ThreadLocalRegistry

from ...domain.counted import counted
from .pending import ENQUEUED, KINDS, WITHDRAWN, abandon, left_by_thread, tell_of_dropped
from .session_events import left_open

_log = logging.getLogger("outbox")

_LEFT = (
    "outbox: the request has ended, and its session is still open with %s: the thread's next commit"
    " sends what this request gave up. Call session.remove() in a function with"
    " @app.teardown_appcontext"
)
_LEFT_IN_CONTEXT = (
    "outbox: the request has ended, and its session is still open with %s: the app context was"
    " there before the request, and outlives it, so the next request's commit sends what this one"
    " gave up. Write with app.app_context(): in the place of a context that is pushed"
)
_LEFT_BY_TASK = (
    "outbox: %s has ended, and the session in which it enqueued is still open with %s: a later"
    " commit sends %s, and without one %s lost. Call commit() in the task, and write with"
    " app.app_context(): in the place of a context that is pushed"
)


_KEPT_BY_TASK = (
    "outbox: %s has ended, and the session in which it withdrew %s is still open: without a commit"
    " %s out all the same. Call commit() in the task"
)


_PUSHED = "_outbox_pushed"
"""In the `g` of a context that has been pushed."""
_BEFORE_QUEUES = 100
"""The greatest priority comes first. That of Python's queues is 10."""


def watch(app: Flask, source: scoped_session[Any]) -> None:
    """Look at the thread's session behind each app context of the app.

    A scope of the app's own is not asked: mostly it needs the context, or is the context. So it is
    asked behind each request that an app context outlives.
    """
    request_tearing_down.connect(_look_behind_request, app)
    if isinstance(source.registry, ThreadLocalRegistry):
        # Not a function for each app: the signal would hold it, and with it an app of which nobody
        # knows any more.
        appcontext_popped.connect(_look, app)
    else:
        appcontext_pushed.connect(_close_anothers, app)


def _close_anothers(app: Flask, **_: object) -> None:
    """Close a session that this context has not opened, so that it commits no email of another one.

    Flask-SQLAlchemy knows a session by the `id` of its context. A context that is pushed and never
    popped may be collected with its thread, and a new one gets its `id`.
    """
    if g.get(_PUSHED):  # the context itself has been pushed before
        return
    g.setdefault(_PUSHED, True)
    source = _source_of(app)
    sessions = getattr(getattr(source, "registry", None), "registry", None)
    if not isinstance(sessions, dict):
        return
    context = flask_globals.app_ctx._get_current_object()  # type: ignore[attr-defined]
    found = sessions.get(id(context))
    if found is not None and any(kind in found.info for kind in KINDS):
        source.remove()  # which tells that they were discarded


def _source_of(app: Flask) -> Any:
    """Return where the app's sessions come from; None where it has taken its outbox out again."""
    return getattr(app.extensions.get("outbox"), "source", None)


def _look(app: Flask, **_: object) -> None:
    # The signal comes after all teardown functions, whatever their order. Within another context
    # the session may be that one's.
    if not has_app_context():
        _tell_of_left(app, _LEFT)


def _look_behind_request(app: Flask, **_: object) -> None:
    # The signal comes after all functions of the app's for the end of a request.
    if _is_outlived():
        tell_of_dropped()
        _tell_of_left(app, _LEFT_IN_CONTEXT)


def _is_outlived() -> bool:
    """Return whether the app context was there before the request.

    Flask has no public name for it. From 3.2 on each request has a context of its own.
    """
    found = getattr(flask_globals, "_cv_request", None)
    pushed: Sequence[Any] = getattr(found and found.get(None), "_cv_tokens", ())
    return len(pushed) > 0 and pushed[0][1] is None


def _tell_of_left(app: Flask, text: str) -> None:
    source = _source_of(app)
    if not isinstance(source, scoped_session) or not source.registry.has():
        return
    if emails := left_open(source()):
        _log.warning(
            text,
            counted(emails, "email", "emails"),
            extra={"outbox": {"event": "emails_left_open", "emails": emails}},
        )


def _tell_of_dropped(_app: Flask, **_: object) -> None:
    tell_of_dropped()


def _look_behind_task(sender: Task[Any, Any], **_: object) -> None:
    """Look at what a task leaves. One that runs within its caller leaves it to the caller."""
    tell_of_dropped()
    if sender.request.is_eager:
        return
    origin = f"the task {sender.name}"
    if emails := left_by_thread(ENQUEUED):
        _log.warning(
            _LEFT_BY_TASK,
            origin,
            counted(emails, "email", "emails"),
            *(("it", "it is") if emails == 1 else ("them", "they are")),
            extra={"outbox": {"event": "emails_left_open", "emails": emails, "origin": origin}},
        )
    if emails := left_by_thread(WITHDRAWN):
        _log.warning(
            _KEPT_BY_TASK,
            origin,
            counted(emails, "email", "emails"),
            "it goes" if emails == 1 else "they go",
            extra={
                "outbox": {"event": "cancellations_left_open", "emails": emails, "origin": origin}
            },
        )


def _be_the_last(**_: object) -> None:
    """Look after the app's own handlers of the signal, which may commit or close the session."""
    task_postrun.disconnect(_look_behind_task)
    task_postrun.connect(_look_behind_task)


def _abandon_in_child(*_: object) -> None:
    """Have a child of `multiprocessing` tell at its end, which runs no function of `atexit`."""
    # Before a queue of its own is closed, over which a handler of the log may write.
    multiprocessing.util.Finalize(None, abandon, exitpriority=_BEFORE_QUEUES)


def _listen() -> None:
    _be_the_last()
    worker_init.connect(_be_the_last)
    worker_process_init.connect(_be_the_last)
    appcontext_popped.connect(_tell_of_dropped)  # of any app
    atexit.register(abandon)
    multiprocessing.util.register_after_fork(abandon, _abandon_in_child)
    if multiprocessing.parent_process() is not None:  # forked before this import
        _abandon_in_child()


_listen()
