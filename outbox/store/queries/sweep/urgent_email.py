"""Tells whether urgent email is active, or takes each permit: what a window's permits depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import CompoundSelect, union_all

from ....domain.priority import Priority
from ....domain.scheduling.claim_plan import LaneKey
from ....domain.scheduling.lanes import Lanes
from ....domain.scheduling.overdue import is_kept_out
from ....domain.scheduling.token_bucket import Rate
from ...connection.database import Database
from ...control.lease import has_slot
from .preemption import is_any_due, look, waiting_of
from .sweep_snapshot import flight_of, in_flight
from .tagged_rows import due_query, finding, now

_LONG = 1.0
"""Seconds after which due email is active only if no other transaction has locked it."""


def is_urgent_active(database: Database, lanes: Lanes, lane: str) -> bool:
    """Return whether urgent email that shares a bucket with this lane is due or in flight."""
    found = look(database, _stirring)
    if any(lanes.share_a_bucket(lane, row.name) for row in found["flight"]):
        return True
    waiting = waiting_of(found, Priority.URGENT).items()
    ages = {name: age for name, age in waiting if lanes.share_a_bucket(lane, name)}
    # Bulk only slows down for it, so most often nothing needs to be asked, and nothing is locked.
    if any(0.0 <= age < _LONG for age in ages.values()):
        return True
    return is_any_due(database, ages, Priority.URGENT, 0.0)


def _stirring(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    lease = database.tables.lease.c
    flying = (lease.priority == int(Priority.URGENT)) & has_slot(database)
    return union_all(
        now(database),
        finding("flight", lease.lane).where(flying).group_by(lease.lane),
        due_query(database, Priority.URGENT),
    )


def keeps_out(database: Database, lanes: Lanes, way: LaneKey, beside: Mapping[str, Rate]) -> bool:
    """Return whether urgent email would take each permit before a batch: see `is_kept_out`."""
    found = look(database, _flying)
    waiting = [lane for lane, age in waiting_of(found, Priority.URGENT).items() if age >= 0.0]
    return is_kept_out(way, flight_of(found), waiting, lanes, beside)


def _flying(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(now(database), in_flight(database), due_query(database, Priority.URGENT))
