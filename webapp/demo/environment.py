"""What of a person's environment the demo's processes and tools do not take over.

A shell that is set up for a real outbox must not lead the demo to that outbox or to its server.
"""

from __future__ import annotations

from collections.abc import MutableMapping

FOREIGN = (
    *("CELERY", "BROKER_URL", "REDIS_URL", "FLOWER", "GUNICORN", "FLASK"),
    *("DASHBOARD", "DATABASE", "DEMO", "HEARTBEAT", "LIMITS", "MAIL", "METRICS", "OUTBOX"),
    *("PORT", "PROXIES", "PUBLIC_URL", "SECRET_KEY"),
    "PG",  # what PostgreSQL's driver reads, such as PGHOSTADDR and PGPORT
)
"""How the names begin that the shop reads, and those that its programs read by themselves."""

UNSET = f"""\
for name in $(env | sed -nE 's/^(({"|".join(FOREIGN)})[A-Za-z0-9_]*)=.*/\\1/p'); do
  unset "$name"
done"""
"""The same for a script of the shell."""


def leave_out_foreign(environ: MutableMapping[str, str]) -> None:
    """Take out what could lead the demo elsewhere."""
    for name in [name for name in environ if name.startswith(FOREIGN)]:
        del environ[name]
