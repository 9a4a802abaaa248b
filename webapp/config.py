"""Reads the web app's configuration from the environment, so that no secret is in the code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from outbox import ConfigurationError
from outbox.metrics import bearer

from .connections import engine_options

SECRETS = (
    *("DASHBOARD_PASSWORD", "DATABASE_PASSWORD", "DATABASE_URL", "MAIL_PASSWORD"),
    *("METRICS_TOKEN", "SECRET_KEY"),
)
SENDER = "post@foolscap.example"
TRUE = frozenset({"1", "true", "yes", "on"})

OPTIONAL = ("DASHBOARD_PASSWORD", "DEMO_INBOX", "DEMO_KILL_WORKER", "FLOWER_URL")
"""What a page shows only where it is there: the dashboard, the caught emails, a command, Flower."""


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return Flask's configuration; raise RuntimeError for a missing or odd variable, by its name.

    A secret may stand in a file: `SECRET_KEY_FILE` names the file that has `SECRET_KEY`.
    """
    environ = _with_files(environ)
    url = environ.get("PUBLIC_URL") or f"http://localhost:{environ.get('PORT') or 5000}"
    url = url.rstrip("/")
    database = _database(environ)
    config: dict[str, Any] = {
        "SECRET_KEY": _required(environ, "SECRET_KEY", "a long random string"),
        "SQLALCHEMY_DATABASE_URI": database,
        "SQLALCHEMY_ENGINE_OPTIONS": engine_options(database),
        "MAIL_SERVER": environ.get("MAIL_SERVER") or "localhost",
        "MAIL_PORT": _number(environ, "MAIL_PORT", 25),
        "MAIL_USERNAME": environ.get("MAIL_USERNAME") or None,
        "MAIL_PASSWORD": environ.get("MAIL_PASSWORD") or None,
        "MAIL_USE_TLS": environ.get("MAIL_USE_TLS", "").lower() in TRUE,
        "MAIL_USE_SSL": environ.get("MAIL_USE_SSL", "").lower() in TRUE,
        "MAIL_DEFAULT_SENDER": _sender(environ.get("MAIL_DEFAULT_SENDER") or SENDER),
        # Links in emails start with this, because a client can choose its request's Host header.
        "PUBLIC_URL": url,
        "SESSION_COOKIE_SECURE": url.startswith("https:"),
        "SESSION_COOKIE_SAMESITE": "Lax",
        "MAX_CONTENT_LENGTH": 256 * 1024,
        "PROXIES": _number(environ, "PROXIES", 0),
    }
    _check_token(environ.get("METRICS_TOKEN"))
    given = ("METRICS_TOKEN", *OPTIONAL, *(name for name in environ if name.startswith("OUTBOX_")))
    config |= {name: environ[name] for name in given if environ.get(name)}
    if limits := environ.get("LIMITS_URL"):
        config["RATELIMIT_STORAGE_URI"] = limits
    return config


def _sender(given: str) -> str | tuple[str, str]:
    """Return who the shop's emails are from: an address alone gets the shop's name."""
    return given if "<" in given else ("Foolscap", given)


def _database(environ: Mapping[str, str]) -> str:
    """Return the database's URL. A password apart from it may have any character, such as `@`."""
    url = with_driver(_required(environ, "DATABASE_URL", "for example sqlite:///shop.db"))
    if password := environ.get("DATABASE_PASSWORD"):
        url = make_url(url).set(password=password).render_as_string(hide_password=False)
    return url


def with_driver(url: str) -> str:
    """Add the driver psycopg to a PostgreSQL URL as hosting platforms give it; return the URL."""
    for scheme in ("postgres://", "postgresql://"):
        if url.startswith(scheme):
            return "postgresql+psycopg://" + url.removeprefix(scheme)
    return url


def _with_files(environ: Mapping[str, str]) -> dict[str, str]:
    """Add the variables that stand in files, as Docker, Kubernetes and systemd hand out secrets."""
    given = dict(environ)
    for name in SECRETS:
        if path := given.get(f"{name}_FILE"):
            if given.get(name):  # nobody can know which of the two is meant
                raise RuntimeError(f"both {name} and {name}_FILE are set: unset one of them")
            given[name] = Path(path).read_text().rstrip("\r\n")
    return given


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    value = environ.get(name, "").strip() or str(default)
    if not value.isdecimal():
        raise RuntimeError(f"the environment variable {name} must be a whole number")
    return int(value)


def _check_token(token: str | None) -> None:
    """Refuse a short token now, and not at each scrape."""
    if token:
        try:
            bearer(token)
        except ConfigurationError as error:
            raise RuntimeError(f"METRICS_TOKEN: {error}") from None


def _required(environ: Mapping[str, str], name: str, hint: str) -> str:
    value = environ.get(name)
    if not value:
        raise RuntimeError(f"set the environment variable {name} ({hint})")
    return value
