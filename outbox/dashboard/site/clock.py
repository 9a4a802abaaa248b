"""The time by which pages say how long ago something was."""

from __future__ import annotations

from datetime import datetime

from ...flask_ext.app.state import state_of


def now() -> datetime:
    """Return the app's time: this host's, or that at which a test has frozen it."""
    return state_of().clock().moment
