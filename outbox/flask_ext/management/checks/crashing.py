"""Examines for `check` and `health` which emails were with lost workers again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from ....domain.delivery.status import Status
from ....store.queries.crashing import CrashingEmail, crashing
from .codes import Code
from .finding import Finding, warn

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime

_LOST = "email {id} was with {workers} workers that were lost"
_UNKNOWN = "see whether it went out, and settle it (flask outbox resolve {id} --as failed, or sent)"
_FAILED = "it has failed; when what ends them is mended, retry it (flask outbox retry {id})"
_DOUBTFUL = (
    "after one more it ends unknown, and you settle it; flask outbox cancel --id {id} ends it now"
)
_OPEN = "mend what ends them, or withdraw it (flask outbox cancel --id {id})"


def crashing_emails(runtime: Runtime) -> tuple[CrashingEmail, ...]:
    """Return the emails; raises DBAPIError."""
    database, term, most = runtime.database, runtime.settings.lease, runtime.settings.max_crashes
    return database.read(
        lambda connection: crashing(connection, database, lease_seconds=term, max_crashes=most)
    )


def crashing_findings(runtime: Runtime) -> list[Finding]:
    """Return a finding for each email; none where the database does not tell."""
    try:
        return [warn(crashing_line(one), Code.CRASHING) for one in crashing_emails(runtime)]
    except SQLAlchemyError:  # the findings on the database tell of it
        return []


def crashing_line(email: CrashingEmail) -> str:
    """Return what is known of the email, and what to do."""
    match email.status:
        case Status.UNKNOWN:
            remedy = _UNKNOWN
        case Status.FAILED:
            remedy = _FAILED
        case _:
            remedy = _DOUBTFUL if email.is_in_doubt else _OPEN
    return f"{_LOST}: {remedy}".format(id=email.id, workers=email.workers)
