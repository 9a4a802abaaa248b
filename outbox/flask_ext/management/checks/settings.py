"""Examines the settings for `check`; a worker logs at its start what is doubtful in them."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery.signals import celeryd_after_setup

from ....domain.config.doubtful_settings import doubtful
from ....domain.config.settings import PREFIX, Settings
from ....domain.errors import ConfigurationError
from ....smtp.tls import current_context
from ....store.connection.drivers import in_memory
from ....worker.setup.late_settings import late_settings
from ....worker.setup.pairing import runtime_of
from ..server_lines import SUPPRESSED, redirect_line
from .codes import Code
from .finding import Finding, error, ok, warn

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime

_log = logging.getLogger("outbox")

_IN_MEMORY = "SQLite's database is in this process's memory: no worker sees what is enqueued"
_NO_SERVER = "no server is named, by MAIL_SERVER or OUTBOX_SERVERS: emails go to {name}"
_NO_SENDER = (
    "MAIL_DEFAULT_SENDER is not set, so each message without a sender of its own is refused"
)
_UNREAD = "the environment has {}, but app.config does not, and the outbox reads only app.config"
_NEAR = re.compile(r"localhost|::1|127(\.\d+){3}")
"""Hosts that nobody can listen on the way to."""
_CLEAR = "SMTP is not encrypted"
_LOG_DISABLED = (
    "the logger outbox is disabled, so nobody reads of failed or discarded emails, or alerts: set"
    " disable_existing_loggers to False in the dictionary of logging.config.dictConfig"
)
_NO_BUNDLE = (
    "OUTBOX_TLS_CA_FILE cannot be read as certificates by this process ({}): no email is sent over"
    " TLS. Name a file in PEM that each worker may read"
)
CLOSED = "outbox_dashboard_closed"
"""The key in `app.extensions` of a dashboard that was given no `access`."""
CLOSED_DASHBOARD = (
    "nobody may see the dashboard, and each of its addresses answers 404: give it"
    " Dashboard(access=…), see docs/how-to/dashboard.md"
)
_OPEN_PREVIEWS = "OUTBOX_PREVIEWS is on outside of debug mode: /outbox/previews answers everybody"


def settings_findings(runtime: Runtime) -> list[Finding]:
    """Return the findings on the settings, without those on the database and on Celery."""
    names = ", ".join(server.name for server in runtime.servers)
    findings = [ok(f"settings are valid; emails go to {names}", Code.SETTINGS)]
    findings += [
        ok(f"route {route or 'default'}: {_over(runtime, route)}", Code.ROUTE)
        for route in runtime.routes.names
    ]
    findings += [warn(_LOG_DISABLED, Code.LOG_DISABLED)] if _log.disabled else []
    findings += [warn(CLOSED_DASHBOARD, Code.CLOSED)] * (CLOSED in runtime.app.extensions)
    if not runtime.app.config.get("MAIL_DEFAULT_SENDER"):
        findings.append(warn(_NO_SENDER, Code.NO_SENDER))
    warnings = doubtful(runtime.app.config, runtime.servers, runtime.settings)
    findings += [warn(text, Code.DOUBTFUL_SETTING) for text in warnings]
    findings += [error(text, Code.LATE_SETTING) for text in late_settings(runtime)]
    return [*findings, *_quiet(runtime)]


def _quiet(runtime: Runtime) -> list[Finding]:
    """Return the findings that `init_app` does not log."""
    findings = [*_server_findings(runtime), *_unread(runtime)]
    if in_memory(runtime.database.engine):
        findings.append(warn(_IN_MEMORY, Code.SQLITE_MEMORY))
    if runtime.sending_is_off():
        findings.append(warn(SUPPRESSED, Code.SUPPRESSED))
    if runtime.settings.redirect_to:
        findings.append(warn(redirect_line(runtime.settings.redirect_to), Code.REDIRECT))
    if runtime.settings.previews and not runtime.app.debug:
        findings.append(warn(_OPEN_PREVIEWS, Code.OPEN_PREVIEWS))
    return findings


def _unread(runtime: Runtime) -> list[Finding]:
    """Return a warning of settings that stand in the environment alone."""
    keys = {f"{PREFIX}{field.name.upper()}" for field in fields(Settings)}
    unread = sorted(key for key in keys - runtime.app.config.keys() if os.environ.get(key))
    text = _UNREAD.format(", ".join(unread))
    return [warn(text, Code.DOUBTFUL_SETTING)] if unread else []


def _server_findings(runtime: Runtime) -> list[Finding]:
    findings = []
    for server in runtime.servers:
        if server.security == "none" and _NEAR.fullmatch(server.host):
            text = f"{server.name}: {_CLEAR}, and does not leave this host"
            findings.append(ok(text, Code.SMTP_IN_CLEAR))
        elif server.security == "none":
            text = f"{server.name}: {_CLEAR} (MAIL_USE_TLS, or use_tls)"
            findings.append(warn(text, Code.SMTP_IN_CLEAR))
        elif not server.tls_verify:
            text = f"{server.name}: TLS certificates are not verified"
            findings.append(warn(text, Code.TLS_UNVERIFIED))
    findings += _ca_findings(runtime)
    config = runtime.app.config
    if not config.get("MAIL_SERVER") and not runtime.settings.servers:
        is_unread = bool(os.environ.get("MAIL_SERVER"))
        hint = "; the environment has MAIL_SERVER, but app.config does not" if is_unread else ""
        text = _NO_SERVER.format(name=runtime.servers[0].name) + hint
        findings.append(warn(text, Code.NO_SERVER))
    return findings


def _ca_findings(runtime: Runtime) -> list[Finding]:
    settings = runtime.settings  # all servers have the same bundle
    if not settings.tls_ca_file or all(each.security == "none" for each in runtime.servers):
        return []
    try:
        current_context(settings.tls_ca_file, settings.tls_verify)
    except OSError as problem:
        return [error(_NO_BUNDLE.format(type(problem).__name__), Code.CA_FILE)]
    return []


def _over(runtime: Runtime, route: str) -> str:
    return ", ".join(server.name for server in runtime.routes.servers_of(route))


def file_findings(runtime: Runtime) -> list[Finding]:
    """Return a warning if the path of SQLite's file depends on where a process was started."""
    database = runtime.database
    path = database.engine.url.database
    if not database.facts.is_file or in_memory(database.engine) or not path:
        return []
    if path.startswith("file:") or Path(path).is_absolute():
        return []
    text = (
        f"SQLite's file is {Path(path).resolve()} because this process was started in that folder:"
        " a process that starts elsewhere has another file; give the engine an absolute path"
    )
    return [warn(text, Code.SQLITE_PATH)]


def _tell(instance: Any, **_: Any) -> None:
    """Log at a worker's start what `check` would warn of."""
    try:
        runtime = runtime_of(instance.app)
    except ConfigurationError:  # another app's worker
        return
    for finding in (*_quiet(runtime), *file_findings(runtime)):
        # A redirection's text has an address, and `init_app` has told it.
        if finding.level != "ok" and finding.code is not Code.REDIRECT:
            _log.warning("outbox: %s", finding.text)


celeryd_after_setup.connect(_tell)
