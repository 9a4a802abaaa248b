"""pending → claimed: one batch and its lease in one statement, where the database can do that.

On an idle system an email waits for each trip to the database. A transaction would take four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import uuid4

from sqlalchemy.exc import DBAPIError

from ...domain.scheduling.claim_plan import ClaimRequest, LaneKey
from ..backend import backend_of
from ..connection.database import Database
from ..connection.error_codes import is_transient
from ..records import Claim, Mark


def claim_whole(
    database: Database,
    requests: Sequence[ClaimRequest],
    *,
    lease_seconds: float,
    since: Mapping[LaneKey, Mark],
) -> list[Claim] | None:
    """Claim the only batch that is asked for, and its lease, in one statement.

    Return None where that is not possible, or was disturbed. Then nothing was claimed.
    """
    own = backend_of(database.dialect).claim_whole
    if own is None or len(requests) > 1 or requests[0].batches > 1:
        return None
    [request], token = requests, uuid4()
    mark = since.get((request.lane, request.priority))
    try:
        emails = own(database, request, token, mark, lease_seconds)
    except DBAPIError as error:
        if not is_transient(error):
            raise
        return None
    if emails is None:
        return None
    made = Claim(token=token, priority=request.priority, emails=emails, lane=request.lane)
    return [made] if emails else []
