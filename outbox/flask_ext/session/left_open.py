"""Tells of emails in a session that nobody closed at the end of its request.

A thread's session outlives the request. What an aborted request wrote in it is then committed by
the thread's next request, with its emails.
"""

from __future__ import annotations

import logging
from typing import Any

from flask import Flask, appcontext_popped, has_app_context
from sqlalchemy.orm import scoped_session
from sqlalchemy.util import ThreadLocalRegistry

from ...domain.counted import counted
from .session_events import uncommitted

_log = logging.getLogger("outbox")

_LEFT = (
    "outbox: the request has ended, and its session is still open with %s: the thread's next commit"
    " sends what this request gave up. Call session.remove() in a function with"
    " @app.teardown_appcontext"
)


def watch(app: Flask, source: scoped_session[Any]) -> None:
    """Look at the thread's session behind each app context of the app.

    A scope of the app's own is not asked: mostly it needs the context, or is the context.
    """
    if isinstance(source.registry, ThreadLocalRegistry):
        # Not a function for each app: the signal would hold it, and with it an app of which nobody
        # knows any more.
        appcontext_popped.connect(_look, app)


def _look(app: Flask, **_: object) -> None:
    # The signal comes after all teardown functions, whatever their order. Within another context
    # the session may be that one's.
    source = app.extensions["outbox"].source
    if has_app_context() or not source.registry.has():
        return
    if emails := uncommitted(source()):
        _log.warning(
            _LEFT,
            counted(emails, "email", "emails"),
            extra={"outbox": {"event": "emails_left_open", "emails": emails}},
        )
