"""Lets requests outlive a restart of the database's server, and a host that vanishes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import make_url

LIBPQ = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""Milliseconds, the others seconds. Linux itself waits for 15 minutes. None ends a statement that
takes long: a host that works on it still acknowledges. Linux also ends a connection whose host
reads nothing of what it is sent for 25 s."""


def engine_options(url: str) -> dict[str, Any]:
    """Return options for the engine of this database. What the URL says itself counts."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return {}
    options: dict[str, Any] = {"pool_pre_ping": True}  # a server that restarts cuts the pool's
    if parsed.get_driver_name() in ("psycopg", "psycopg2"):
        options["connect_args"] = {
            name: value for name, value in LIBPQ.items() if name not in parsed.query
        }
    return options
