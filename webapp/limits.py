"""Limits what one client, and what one address, can make the shop send.

A form that writes to any address is a way to flood somebody's inbox. Flask-Limiter counts in the
storage that LIMITS_URL names, such as Redis, which all processes share. Without it, and while that
storage is away, each process counts in its own memory: two processes then let twice as much pass.

Behind reverse proxies, PROXIES must say how many there are: otherwise all clients look like one.
"""

from __future__ import annotations

import hashlib

from flask import Flask, request
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from werkzeug.middleware.proxy_fix import ProxyFix

limiter = Limiter(get_remote_address)

ORDERS_OF_A_CLIENT = "60/minute"
ORDERS_TO_AN_ADDRESS = "30/hour"
RESETS_OF_A_CLIENT = "20/hour"
"""What one address gets is limited by time slots: `pages.password_reset.SLOT`."""
INVOICES_OF_A_CLIENT = "60/minute"
"""To draw one with a font of its own takes a third of a second, and with a large one a second."""
NEWSLETTERS_OF_A_CLIENT = "10/minute"

REDIS_WAITS = {"socket_connect_timeout": 0.5, "socket_timeout": 0.5}
"""Seconds that a request waits for a Redis that is silent. The next ones do not ask it at once."""


def init_app(app: Flask) -> None:
    """Count the requests of this app."""
    config = app.config
    storage = config.setdefault("RATELIMIT_STORAGE_URI", "memory://")
    if storage.startswith("redis"):
        config.setdefault("RATELIMIT_STORAGE_OPTIONS", REDIS_WAITS)
    config.setdefault("RATELIMIT_IN_MEMORY_FALLBACK_ENABLED", True)
    # Of two requests that find the storage away at once, only the first one counts in memory.
    config.setdefault("RATELIMIT_SWALLOW_ERRORS", True)
    config.setdefault("RATELIMIT_HEADERS_ENABLED", True)  # they tell when to try again
    config.setdefault("RATELIMIT_ENABLED", True)  # otherwise the last app's value would hold
    limiter.init_app(app)
    if proxies := app.config.get("PROXIES", 0):
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies)  # type: ignore[method-assign]


def address() -> str:
    """Return a key for the form's address. The storage is to hold no addresses."""
    value = request.form.get("email", "").strip().lower()
    return "address:" + hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
