"""The log lines of what a person may have to see: one line for each, in the logger "outbox".

A line has ids, statuses, server names and codes, and never an address, a subject or a server's own
words. The same values are in the record's attribute `outbox`, for loggers that write JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ..domain.counted import counted
from ..domain.delivery.status import Status
from ..store.connection.endings import Ending
from ..store.harmless_log import harmless_log

_log = logging.getLogger("outbox")

LOGGED = frozenset({Status.FAILED, Status.UNKNOWN})
"""The statuses that get a line. A sent email gets none: there are too many."""


def log_endings(endings: Iterable[Ending]) -> None:
    """Log each email that failed, or that may have gone out and waits for a person."""
    for status, email_id, cause in endings:
        if status in LOGGED:
            values = {"event": f"email_{status}", "email_id": email_id, "cause": cause}
            harmless_log.warning(
                "outbox: email %d ended %s (%s)", email_id, status, cause, extra={"outbox": values}
            )


def log_breaker(server: str, cause: str, *, alert: bool) -> None:
    """Log that a server's breaker opened; with `alert` a person must see to it."""
    values = {"event": "breaker_opened", "server": server, "cause": cause, "alert": alert}
    level = logging.ERROR if alert else logging.WARNING
    _log.log(level, "outbox: server %s is halted (%s)", server, cause, extra={"outbox": values})


def log_unreached(server: str, cause: str, *, seconds: float) -> None:
    """Log that this host opens no session with a server over which another host sends."""
    values = {"event": "server_unreached", "server": server, "cause": cause, "seconds": seconds}
    text = (
        "outbox: this host opens no session with server %s (%s), but another host does: it leaves"
        " the server for %.0f s"
    )
    _log.error(text, server, cause, seconds, extra={"outbox": values})


def log_crowded(server: str, cause: str) -> None:
    """Log that a server takes no more sessions than this process has; it goes on with those."""
    values = {"event": "server_crowded", "server": server, "cause": cause}
    text = (
        "outbox: server %s refused a further connection (%s) and takes emails over the others: if"
        ' it allows fewer at once than the workers have slots, set its "connections" in'
        " OUTBOX_SERVERS"
    )
    harmless_log.warning(text, server, cause, extra={"outbox": values})


def log_alert(server: str, email_id: int) -> None:
    """Log that emails need what a server does not offer, so that a person must see to it."""
    values = {"event": "server_lacks", "server": server, "email_id": email_id}
    text = "outbox: server %s does not offer what emails need, such as email %d"
    _log.error(text, server, email_id, extra={"outbox": values})


def log_missing_key(key_id: str, email_id: int) -> None:
    """Log that emails wait for an encryption key, so that a person must see to it."""
    values = {"event": "key_missing", "key_id": key_id, "email_id": email_id}
    text = "outbox: OUTBOX_ENCRYPTION_KEYS lacks the key %s, which emails need, such as email %d"
    _log.error(text, key_id, email_id, extra={"outbox": values})


def log_rescue(*, leases: int, emails: int, in_doubt: int) -> None:
    """Log that emails of lost workers were judged, and how many batches that ended."""
    values = {"event": "leases_rescued", "leases": leases, "emails": emails, "in_doubt": in_doubt}
    _log.warning(
        "outbox: %s rescued, %d of them in doubt; %s ended",
        counted(emails, "email of a lost worker was", "emails of lost workers were"),
        in_doubt,
        counted(leases, "batch", "batches"),
        extra={"outbox": values},
    )
