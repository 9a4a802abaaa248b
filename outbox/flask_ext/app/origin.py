"""Where the code runs that enqueues, by names that the app's developers gave: for a log line."""

from __future__ import annotations

import click
from celery import current_task
from flask import has_request_context, request


def origin() -> str:
    """Return the view, task or command, such as `the view shop.order`, or "" if it is none.

    A log line may have it: it is no part of what the visitor sent.
    """
    if has_request_context():
        return f"the view {request.endpoint}" if request.endpoint else ""
    if current_task:
        return f"the task {current_task.name}"
    context = click.get_current_context(silent=True)
    return "" if context is None else f"the command {context.command_path}"
