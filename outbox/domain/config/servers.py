"""The SMTP servers: one from Flask-Mail's `MAIL_…` settings, or the list of `OUTBOX_SERVERS`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from ..errors import ConfigurationError
from ..header.address import CONTROL
from ..scheduling.token_bucket import Rate, read_rate
from .hint import hint
from .settings import Settings
from .typed_values import as_kind, as_whole

MAX_HOST = 255
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\[\]-]{0,99}")

_KINDS: dict[str, type] = {
    "name": str,
    "server": str,
    "port": int,
    "username": str,
    "password": str,
    "use_tls": bool,
    "use_ssl": bool,
    "rate": str,
    "connections": int,
    "order": int,
    "weight": float,
}
"""The keys of one entry of `OUTBOX_SERVERS`, and the kinds of their values besides None."""


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """One SMTP server: how to speak to it, how much it takes, and when it is chosen."""

    host: str
    port: int
    security: Literal["none", "starttls", "tls"]
    username: str | None
    password: str | None = field(repr=False)
    connect_timeout: float
    command_timeout: float
    dot_timeout: float
    transaction_timeout: float
    connection_emails: int
    connection_seconds: float
    tls_verify: bool
    tls_ca_file: str
    cleartext_auth: bool
    helo_name: str
    label: str = ""
    rate: Rate | None = None  # recipients per time; None: no limit
    connections: int | None = None  # batches in flight on it, over all workers; None: any number
    order: int = 1  # the lowest is used first
    weight: float = 1.0  # its share among the servers of its order

    @cached_property
    def name(self) -> str:
        """The server's name in routes, the breaker, the attempt log and the statistics."""
        return self.label or f"{self.host}:{self.port}"

    @property
    def bucket(self) -> str:
        """The name of the bucket that counts this server's rate."""
        return f"server:{self.name}"

    @classmethod
    def from_config(cls, config: Mapping[str, Any], settings: Settings) -> ServerSettings:
        """Read `MAIL_SERVER`, `_PORT`, `_USERNAME`, `_PASSWORD`, `_USE_TLS` and `_USE_SSL`.

        `MAIL_MAX_EMAILS`, emails over one connection, may lower `OUTBOX_CONNECTION_EMAILS`.
        """
        keys = ("server", "port", "username", "password", "use_tls", "use_ssl")
        given = {
            key: _value(f"MAIL_{key.upper()}", config.get(f"MAIL_{key.upper()}"), _KINDS[key])
            for key in keys
        }
        host = given["server"] or ""
        if CONTROL.search(host) or len(host) > MAX_HOST:
            raise ConfigurationError("MAIL_SERVER must be a host's name or address")
        server = _server(given, settings)
        most = as_whole(config.get("MAIL_MAX_EMAILS") or server.connection_emails)
        if most is None or most < 1:
            raise ConfigurationError("MAIL_MAX_EMAILS must be a whole number of at least 1")
        return dataclasses.replace(server, connection_emails=min(most, server.connection_emails))


def servers_from_config(
    config: Mapping[str, Any], settings: Settings
) -> tuple[ServerSettings, ...]:
    """Return the servers in their order: those of `OUTBOX_SERVERS`, or else the one of `MAIL_…`.

    Raises ConfigurationError for an unknown key, a wrong value or a name that comes twice. The
    error repeats only an entry's name and no other value, because one of them is the password.
    """
    if not settings.servers:
        return (ServerSettings.from_config(config, settings),)
    servers = [_entry(place, entry, settings) for place, entry in enumerate(settings.servers)]
    names = [server.name for server in servers]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"OUTBOX_SERVERS has two servers with the name {name}")
    return tuple(sorted(servers, key=lambda server: server.order))


def _entry(place: int, entry: Any, settings: Settings) -> ServerSettings:
    where = f"OUTBOX_SERVERS[{place}]"
    if not isinstance(entry, Mapping):
        raise ConfigurationError(f"{where} must be dict, not {type(entry).__name__}")
    for key in entry:
        if key not in _KINDS:
            raise ConfigurationError(f"unknown key {key!r} in {where}{hint(key, _KINDS)}")
    entry = {key: _value(f"{where}[{key!r}]", entry[key], _KINDS[key]) for key in entry}
    if not entry.get("server"):
        raise ConfigurationError(f"{where}['server'] is missing: it names the server's host")
    for key in ("connections", "weight"):
        value = entry.get(key)
        if value is not None and not 0 < value < float("inf"):  # also refuses NaN
            raise ConfigurationError(f"{where}[{key!r}] must be greater than 0")
    server = _server(entry, settings, where)
    if not SERVER_NAME.fullmatch(server.name):
        raise ConfigurationError(
            f"{where}['name'] must be 1 to 100 letters, digits and any of . _ - : [ ]"
        )
    return server


def _value(key: str, value: Any, kind: type) -> Any:
    """Return a value of this kind, or None. An empty one counts as none, as in Flask-Mail."""
    return None if value is None or value == "" else as_kind(key, value, kind)


def _server(entry: Mapping[str, Any], settings: Settings, where: str = "") -> ServerSettings:
    def key(name: str) -> str:
        return f"{where}[{name!r}]" if where else f"MAIL_{name.upper()}"

    starttls, tls = entry.get("use_tls"), entry.get("use_ssl")
    if starttls and tls:
        raise ConfigurationError(
            f"{key('use_tls')} (STARTTLS) and {key('use_ssl')} exclude each other"
        )
    port = entry.get("port") or (465 if tls else 587 if starttls else 25)
    if not 0 < port < 65536:
        raise ConfigurationError(f"{key('port')} must be a number from 1 to 65535")
    shared = {f.name for f in dataclasses.fields(ServerSettings)} & {
        f.name for f in dataclasses.fields(Settings)
    }
    chosen = ("connections", "order", "weight")
    given = {name: entry[name] for name in chosen if entry.get(name) is not None}
    server = ServerSettings(
        host=entry.get("server") or "127.0.0.1",
        port=port,
        security="tls" if tls else "starttls" if starttls else "none",
        username=entry.get("username") or None,
        password=entry.get("password") or None,
        label=entry.get("name") or "",
        rate=read_rate(key("rate"), entry.get("rate")),
        **{name: getattr(settings, name) for name in shared - {"rate"}},
        **given,
    )
    if server.username and server.security == "none" and not server.cleartext_auth:
        raise ConfigurationError(
            f"{key('username')} without {key('use_tls')} or {key('use_ssl')} would send the"
            " password in clear; set OUTBOX_CLEARTEXT_AUTH = True if that is what you want"
        )
    return server
