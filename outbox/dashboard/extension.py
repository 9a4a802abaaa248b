"""Adds the pages to an app, and asks the app who may see them."""

from __future__ import annotations

import logging

from flask import Flask

from ..domain.errors import ConfigurationError
from ..flask_ext.management.checks.settings import CLOSED, CLOSED_DASHBOARD
from .access.role import Access, nobody
from .controls import audit, held, pauses, suppressed, workers
from .jobs import job, jobs, new
from .messages import acts, listing, newsletters, one, problems
from .overview import page as overview
from .site.site import NAME, Site

_log = logging.getLogger("outbox")

PREFIX = "/outbox"
_ROOMS = (
    overview, listing, problems, newsletters, one, acts, jobs, new, job, suppressed, workers,
    pauses, held, audit,
)  # fmt: skip


class Dashboard:
    """The pages of the outbox, for people: see messages, correct them, hold them back.

    `access` is called without arguments before each answer. It returns None or False where the
    visitor may see nothing, a `Role`, or a pair of a `Role` and the visitor's name for the audit.
    Without a name, or with None, the audit says "somebody". It may also abort the request, with a
    redirect to a login for example. Without `access` nobody sees anything: each address answers 404
    to each method, as if nothing were there. The app's log and `flask outbox check` warn of that.
    (Flask-WTF's CSRFProtect is asked before, and answers 400 to a POST without a token.) An
    example::

        access = flask_login(lambda user: Role.ACT if user.is_staff else None)
        Dashboard(access=access).init_app(app)

    The app needs an `Outbox`, and a SECRET_KEY for the tokens of the forms. Where it has
    Flask-WTF's CSRFProtect, the forms carry Flask-WTF's token.
    """

    def __init__(
        self, app: Flask | None = None, *, access: Access = nobody, url_prefix: str = PREFIX
    ) -> None:
        self._access = access
        self._prefix = url_prefix
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Add the pages to the app.

        Raises ConfigurationError for an app that has a dashboard already, for an `access` that is
        no function, and for a `url_prefix` that does not begin with a slash.
        """
        if NAME in app.blueprints:
            raise ConfigurationError("this app has a dashboard already: call init_app once")
        if not callable(self._access):
            raise ConfigurationError("access must be a function that takes nothing")
        if not self._prefix.startswith("/") or self._prefix.endswith("/"):
            raise ConfigurationError("url_prefix must begin with a slash, and not end with one")
        site = Site(self._access, self._prefix)
        for room in _ROOMS:
            room.add_to(site)
        app.register_blueprint(site.blueprint)
        if self._access is nobody:  # whoever has forgotten it sees no more than a stranger does
            app.extensions[CLOSED] = self
            _log.warning("outbox: %s", CLOSED_DASHBOARD)
