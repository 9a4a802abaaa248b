"""Warns of an app context that is open around a test: its requests then share one session."""

from __future__ import annotations

import warnings

from flask import Flask, current_app, has_app_context

_OPEN = (
    "an app context is open around this test, so the requests in it share one session with the"
    " test: it passes although a view forgot its commit. Leave the context before the fixture app"
    " returns the app; pytest-flask opens one for each fixture with the name app"
)


class OpenContextWarning(UserWarning):
    """An app context is open around a test, so a commit that was forgotten is not seen."""


def warn_if_open(app: Flask) -> None:
    """Warn if a request that begins now would use a context of this app that is open already."""
    if has_app_context() and current_app._get_current_object() is app:  # type: ignore[attr-defined]
        warnings.warn(_OPEN, OpenContextWarning, stacklevel=2)
