"""What is known of a claimed email when its transaction is judged, as a worker knows it."""

from __future__ import annotations

from outbox.domain.config.settings import OnUnknown
from outbox.domain.delivery.outcome import EmailState, RecipientStatus
from outbox.store.records import ClaimedEmail


def facts(mail: ClaimedEmail, **changes: object) -> EmailState:
    """Return it with the default settings, and with a lifetime that never ends."""
    values: dict[str, object] = {
        "attempts": mail.attempts,
        "max_attempts": 12,
        "crashes": mail.crashes,
        "max_crashes": 5,
        "unknown_count": mail.unknown_count,
        "on_unknown": OnUnknown.RESEND,
        "seconds_left": 1e9,
        "doubtful": mail.doubtful,
        "settled": frozenset(map(RecipientStatus, mail.settled)),
    }
    return EmailState(**values | changes)  # type: ignore[arg-type]
