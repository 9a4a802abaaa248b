"""The verbs that hold emails back: pauses, and the suppression list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...domain.config.enqueue_options import check_name
from ...domain.errors import InvalidMessage
from ...domain.header.address import check_address
from ...store.control import pause as pauses
from ...store.control import suppression
from ...store.report_records import Suppression
from ...store.schema.column_types import REASON_LENGTH
from .arguments import priority_of

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


def suppress(runtime: Runtime, address: Any, reason: Any) -> bool:
    """Put an address on the list; False where it was on it already."""
    whom = check_address(address, "address")
    why = check_name("reason", reason, REASON_LENGTH)
    if why is None:
        raise InvalidMessage("reason", f"must be text of 1 to {REASON_LENGTH} characters")
    database = runtime.database
    return database.run(lambda c: suppression.suppress(c, database, whom, why))


def unsuppress(runtime: Runtime, address: Any) -> bool:
    """Take an address off the list; False where it was not on it."""
    whom, database = check_address(address, "address"), runtime.database
    return database.run(lambda c: suppression.allow(c, database, whom))


def suppressed(runtime: Runtime) -> tuple[Suppression, ...]:
    """Return the list, by address."""
    database = runtime.database
    return database.read(lambda c: suppression.suppressed(c, database))


def pause(runtime: Runtime, priority: Any) -> bool:
    """Pause a priority, or everything; False where it was paused already."""
    which, database = priority_of(priority), runtime.database
    return database.run(lambda c: pauses.pause(c, database, which))


def resume(runtime: Runtime, priority: Any) -> bool:
    """Resume a priority, or everything; False where it was not paused."""
    which, database = priority_of(priority), runtime.database
    return database.run(lambda c: pauses.resume(c, database, which))
