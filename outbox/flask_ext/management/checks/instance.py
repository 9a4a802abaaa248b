"""Examines the instance for `check`: may this outbox send from here, and what is held?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from ....domain.counted import counted
from ....domain.errors import ConfigurationError
from ....store.instance import examine, hold
from .codes import Code
from .finding import Finding, error, ok, warn

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime

_STANDBY = (
    "the database is a standby (pg_is_in_recovery), or a proxy sends reads to one: nothing can be"
    " sent from a standby"
)
_NAMELESS = (
    "the database does not tell which server it is: set OUTBOX_INSTANCE, so that a copy of these"
    " tables sends nothing"
)


def instance_findings(runtime: Runtime) -> list[Finding]:
    """Return the findings; none where the tables are missing, which others tell of."""
    try:
        found = examine.look(runtime.database, runtime.settings.instance)
        return [*_place(found, runtime.settings.instance), *_held(found, runtime)]
    except (ConfigurationError, SQLAlchemyError):
        return []


def _place(found: examine.Examination, name: str) -> list[Finding]:
    if found.place.is_standby:
        return [warn(_STANDBY, Code.STANDBY)]
    if found.refusal is not None:
        return [error(found.refusal, Code.COPY)]
    return [] if found.place.cluster or name else [ok(_NAMELESS, Code.NAMELESS)]


def _held(found: examine.Examination, runtime: Runtime) -> list[Finding]:
    if found.instance is None or not found.instance.has_held:
        return []
    database = runtime.database
    kinds = database.read(lambda connection: hold.held(connection, database))
    emails = sum(one.emails for one in kinds)
    if not emails:
        return []
    told = counted(emails, "email is held", "emails are held")
    return [warn(f"{told} since a restore (flask outbox held, flask outbox release)", Code.HELD)]
