"""What a test hands to a connection of ours: settings, an envelope, and the fence of a lease."""

from __future__ import annotations

from dataclasses import replace

from outbox.domain.config.servers import ServerSettings
from outbox.domain.delivery.transaction import Envelope


def server_settings(port: int, **changes: object) -> ServerSettings:
    """Return settings for a server on 127.0.0.1, with time-outs that no passing test reaches."""
    settings = ServerSettings(
        host="127.0.0.1",
        port=port,
        security="none",
        username=None,
        password=None,
        connect_timeout=5.0,
        command_timeout=5.0,
        dot_timeout=5.0,
        transaction_timeout=60.0,
        connection_emails=100,
        connection_seconds=300.0,
        tls_verify=True,
        tls_ca_file="",
        cleartext_auth=False,
        helo_name="client.example",
    )
    return replace(settings, **changes)  # type: ignore[arg-type]  # a test's own keywords


def envelope(*recipients: str) -> Envelope:
    """Return an envelope for these recipients, or for one."""
    return Envelope(sender="shop@example.org", recipients=recipients or ("a@example.org",))


def lease_held() -> bool:
    """Be the fence of a lease that is never lost."""
    return True
