"""The error for whoever is about to go round the outbox."""

from __future__ import annotations

from ...domain.errors import ConfigurationError


class DirectSending(ConfigurationError):
    """Raised where Flask-Mail or Flask-Mailman is about to speak SMTP inside the request."""
