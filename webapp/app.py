"""The application factory: builds the Flask app with all its parts from a configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from flask import Flask, render_template
from sqlalchemy import select
from werkzeug.exceptions import HTTPException

from . import database, flask_celery, limits, sqlite
from .config import from_environment
from .extensions import csrf, dashboard, db, metrics, migrate, outbox
from .pages import formats, inbox, newsletter, password_reset, security, shop


def create_app(config: Mapping[str, Any] | None = None) -> Flask:
    """Build the shop from `config`, or from the environment without it."""
    app = Flask(__name__)
    app.config.update(from_environment(os.environ) if config is None else config)
    db.init_app(app)
    with app.app_context():
        sqlite.configure(db.engine)
    migrate.init_app(app, db)
    csrf.init_app(app)
    limits.init_app(app)
    flask_celery.init_app(app)
    outbox.init_app(app, db=db)
    dashboard.init_app(app)
    metrics.init_app(app)

    app.register_blueprint(shop.bp)
    app.register_blueprint(password_reset.bp)
    app.register_blueprint(newsletter.bp)
    if "DEMO_INBOX" in app.config:
        app.register_blueprint(inbox.bp)
    app.add_url_rule("/healthz", view_func=healthz)
    app.register_error_handler(HTTPException, error_page)
    app.after_request(security.add_headers)
    app.cli.add_command(database.init_db)
    formats.register(app)
    return app


def healthz() -> dict[str, str]:
    """Answer 200 if the database answers. Redis may be down: commits do not need it."""
    db.session.execute(select(1))
    return {"status": "ok"}


def error_page(error: HTTPException) -> tuple[str, int, list[tuple[str, str]]]:
    """Return an HTTP error as a page of the shop, with the error's own headers, such as `Allow`."""
    headers = [(name, value) for name, value in error.get_headers() if name != "Content-Type"]
    return render_template("error.html", error=error), error.code or 500, headers
