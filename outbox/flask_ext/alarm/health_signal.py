"""The Blinker signal that the outbox's health has turned."""

from __future__ import annotations

import logging

from blinker import Namespace
from flask import Flask

from ..management.results import Health
from ..management.server_lines import printable

_log = logging.getLogger("outbox")

outbox_health_changed = Namespace().signal(
    "outbox-health-changed", "Emails leave no longer as they should, or do so again"
)
"""Receivers are called as `receiver(app, healthy=False, problems=("…",))`, where `Outbox.watch`
runs. The problems are in words, without addresses."""


def problems_of(health: Health) -> tuple[str, ...]:
    """Return what is wrong, without the servers' own words, which may have addresses."""
    of_servers = (f"server {printable(one.server)} needs a person" for one in health.alerts)
    return (*map(printable, health.problems), *of_servers)


def tell(app: Flask, health: Health) -> None:
    """Call the receivers. An error in one of them is logged, and changes nothing."""
    arguments = {"healthy": health.healthy, "problems": problems_of(health)}
    for receiver in list(outbox_health_changed.receivers_for(app)):
        try:
            app.ensure_sync(receiver)(app, **arguments)
        except Exception as error:  # noqa: BLE001  (its text may name an address)
            name = getattr(receiver, "__qualname__", type(receiver).__name__)
            text = "outbox: the receiver %s of %s failed (%s)"
            _log.error(text, name, outbox_health_changed.name, type(error).__name__)
