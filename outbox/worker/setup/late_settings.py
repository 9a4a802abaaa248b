"""Tells of settings that were changed after `init_app`, which has read them once and for all."""

from __future__ import annotations

import dataclasses

from ...domain.config.servers import servers_from_config
from ...domain.config.settings import PREFIX, Settings
from ...domain.errors import ConfigurationError
from ..process.runtime import Runtime


def late_settings(runtime: Runtime) -> list[str]:
    """Return a line that names the settings whose new value has no effect; none if there are none.

    A value is never told: it may be a password.
    """
    try:
        settings = Settings.from_config(runtime.app.config)
        servers = servers_from_config(runtime.app.config, settings)
    except ConfigurationError as error:
        return [f"a setting was changed after init_app, and is wrong: {error}"]
    names = [
        f"{PREFIX}{field.name.upper()}"
        for field in dataclasses.fields(Settings)
        if getattr(settings, field.name) != getattr(runtime.settings, field.name)
    ]
    if servers != runtime.servers and f"{PREFIX}SERVERS" not in names:
        names.append("MAIL_… (the SMTP server)")
    if not names:
        return []
    return [
        f"set after init_app, and so without effect: {', '.join(names)}; set them before, or call"
        " init_app later"
    ]
