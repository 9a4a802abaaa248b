"""`configure`: one call that joins a Celery app and a Flask app, whichever was made first.

Celery reads its settings when they are first needed, which may be long after this call, and reads
them again after a later `config_from_object`. So the additions are made whenever it has read them.
They are made once more when a worker or beat starts, for settings that were assigned in between.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_init
from flask import Flask

from ...domain.errors import ConfigurationError
from . import additions
from .pairing import PAIRED, unwrapped

_KEPT = "_outbox_additions"
"""The attribute of a Celery app that keeps its Flask app alive: nothing else might."""


def configure(celery_app: Celery, flask_app: Flask) -> None:
    """Have this Celery app send the outbox's emails of this Flask app.

    It adds our queues, beat's entries (by `OUTBOX_SWEEP_INTERVAL`), a beat scheduler in the place
    of Celery's own, and JSON to the accepted contents. It changes nothing that concerns your own
    tasks. The Celery app is put into `flask_app.extensions["celery"]` if nothing is there. Calling
    it again changes nothing. It may come before or after `Outbox.init_app` and
    `config_from_object`.

    Raises ConfigurationError if the Flask app's outbox has another Celery app already.
    """
    celery, flask = _checked(celery_app, flask_app)
    if flask.extensions.setdefault(PAIRED, celery) is not celery:
        raise ConfigurationError(
            f"the outbox of the Flask app {flask.name} has another Celery app already: call"
            " configure with one of them only, whose workers send all of its emails"
        )
    flask.extensions.setdefault("celery", celery)
    kept: _Additions | None = vars(celery).get(_KEPT)
    if kept is None:
        kept = vars(celery)[_KEPT] = _Additions(celery)
        celery.on_after_configure.connect(kept.make, weak=False)
    kept.flask_app = flask
    if celery.configured:
        kept.make()


def _checked(celery_app: Any, flask_app: Any) -> tuple[Celery, Flask]:
    celery, flask = unwrapped(celery_app), unwrapped(flask_app)
    if not isinstance(celery, Celery) or not isinstance(flask, Flask):
        given = f"{type(celery).__name__}, {type(flask).__name__}"
        raise ConfigurationError(f"configure takes a Celery app and a Flask app, not: {given}")
    return celery, flask


class _Additions:
    """Makes the additions to one Celery app, for the Flask app that it was last joined with."""

    flask_app: Flask

    def __init__(self, celery: Celery) -> None:
        self._celery = celery

    def make(self, **_: Any) -> None:
        additions.add(self._celery.conf, self.flask_app.config)
        additions.declare(self._celery)


def _make_again(sender: Any, instance: Any = None, **_: Any) -> None:
    """Make the additions of the app whose worker (`instance`) or beat (`sender`) starts."""
    app = (instance or sender).app
    if kept := vars(app).get(_KEPT):
        kept.make()


celeryd_init.connect(_make_again)
beat_init.connect(_make_again)
