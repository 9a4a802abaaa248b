"""Makes the runtime of an app from its settings, and logs what is most likely a mistake in them."""

from __future__ import annotations

import logging
from typing import Any

from flask import Flask
from sqlalchemy import Engine, MetaData

from ..domain.config.doubtful_settings import doubtful
from ..domain.config.routing import Routes
from ..domain.config.servers import servers_from_config
from ..domain.config.settings import Settings
from ..store.schema.tables import define
from ..worker.process.runtime import Runtime
from ..worker.setup.pairing import celery_of
from .app.engines import engine_of, engines_of
from .dropin.entry import is_suppressed
from .session.savepoints import prepared

_log = logging.getLogger("outbox")


def make_runtime(app: Flask, db: Any, engine: Engine | None, metadata: MetaData) -> Runtime:
    """Return the runtime, with our tables in the metadata. Raises ConfigurationError."""
    settings = Settings.from_config(app.config)
    servers = servers_from_config(app.config, settings)
    for line in doubtful(app.config, servers, settings):
        _log.warning("outbox: %s", line)
    if settings.redirect_to:  # the log gets no address, and so not this one either
        _log.warning("outbox: OUTBOX_REDIRECT_TO is set: no email goes to its recipients")
    return Runtime(
        app=app,
        settings=settings,
        servers=servers,
        routes=Routes.read(settings.routes, servers),
        tables=define(metadata),
        engine=lambda: prepared(engine_of(app, db, engine, metadata)),
        engines=lambda: engines_of(app, engine),
        celery=lambda: celery_of(app),
        sending_is_off=lambda: is_suppressed(app),
    )
