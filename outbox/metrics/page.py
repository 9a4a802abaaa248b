"""The page at which Prometheus asks for the metrics."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response, abort, current_app

from ..domain.errors import ConfigurationError
from ..domain.metrics.exposition import CONTENT_TYPE, exposition
from ..flask_ext.app.state import state_of
from ..flask_ext.management.metrics import families
from .access import Access, nobody

URL = "/metrics"


class Metrics:
    """The page `/metrics` of an app that has an `Outbox`. It needs no other package.

    `access` is called without arguments before each answer, and returns True for who may read it.
    `bearer` makes one that asks for a token. Without `access` the page answers 404 to everybody::

        Metrics(access=bearer(app.config["METRICS_TOKEN"])).init_app(app)

    Each process gives the same numbers, because all of them are read from the tables.
    """

    def __init__(
        self, app: Flask | None = None, *, access: Access = nobody, url: str = URL
    ) -> None:
        self._access = access
        self._url = url
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Add the page to the app.

        Raises ConfigurationError for an app that has a page at this address already, for an
        `access` that is no function, and for a `url` that does not begin with a slash.
        """
        if not callable(self._access):
            raise ConfigurationError("access must be a function that takes nothing")
        if not self._url.startswith("/"):
            raise ConfigurationError("url must begin with a slash")
        if any(rule.rule == self._url for rule in app.url_map.iter_rules()):
            told = "register an OutboxCollector there, or give another url="
            raise ConfigurationError(f"this app has a page at {self._url} already: {told}")
        app.add_url_rule(self._url, endpoint="outbox_metrics", view_func=self._page)

    def _page(self) -> Response:
        may_read: Any = current_app.ensure_sync(self._access)()
        if may_read is not True:
            abort(404)
        text = exposition(families(state_of().runtime))
        return Response(text, content_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})
