"""Which Celery app belongs to a Flask app, and which Flask app a task of that Celery app works for.

A task finds its Flask app through its Celery app. So a Celery app can serve one outbox only.
"""

from __future__ import annotations

import gc
from typing import Any

from celery import Celery
from flask import Flask
from sqlalchemy import URL, Engine, Table

from ...domain.errors import ConfigurationError
from ...store.schema.table_names import moved_schema
from ..process.runtime import Runtime, runtimes

PAIRED = "outbox.celery"
"""The key of `app.extensions` under which `configure` keeps the Celery app. "celery" is the usual
one, but other extensions put other things there."""

NO_FLASK_APP = (
    "no Flask app with an outbox has this Celery app: the module that `celery -A` names must create"
    " the Flask app, and call outbox.celery_config.configure(celery_app, flask_app)"
)


def celery_of(app: Flask) -> Celery | None:
    """Return the Celery app of a Flask app: that of `configure`, or that in the extensions."""
    found = unwrapped(app.extensions.get(PAIRED) or app.extensions.get("celery"))
    return found if isinstance(found, Celery) else None


def unwrapped(found: Any) -> Any:
    """Return what a proxy stands for, such as `celery.current_app` or Flask's `current_app`."""
    unwrap = getattr(found, "_get_current_object", None)
    return found if unwrap is None else unwrap()


def runtime_of(app: Celery) -> Runtime:
    """Return the runtime of the Flask app that has this Celery app.

    A factory may have made the same Flask app several times: then the newest one counts. Raises
    ConfigurationError if there is none, or if there are several that differ.
    """
    found = _all_of(app)
    if _differ(found):
        del found
        gc.collect()  # an app that nobody holds any more may still be there
        found = _all_of(app)
    if not found:
        raise ConfigurationError(NO_FLASK_APP)
    if _differ(found):
        names = ", ".join(runtime.app.name for runtime in found)
        raise ConfigurationError(
            "several Flask apps with different databases, schemas, settings or servers have this"
            f" Celery app ({names}): give each a Celery app of its own, with a broker database or"
            " virtual host of its own, and start a worker and beat for each"
        )
    return found[-1]


def is_paired(app: Celery) -> bool:
    """Return whether a Flask app with an outbox has this Celery app."""
    return bool(_all_of(app))


def is_anyones() -> bool:
    """Return whether a Flask app of this process has an outbox, and a Celery app for it."""
    return any(runtime.find_celery() is not None for runtime in runtimes())


def _all_of(app: Celery) -> list[Runtime]:
    return [runtime for runtime in runtimes() if runtime.find_celery() is app]


def _differ(found: list[Runtime]) -> bool:
    if len(found) < 2:
        return False
    first, *others = [
        (*_place(one.database.engine, one.tables.email), one.settings, one.servers) for one in found
    ]
    return any(other != first for other in others)


def _place(engine: Engine, table: Table) -> tuple[URL, str | None]:
    """Return where the emails are. A search path is not seen: only a connection has it."""
    return engine.url, moved_schema(table, engine)
