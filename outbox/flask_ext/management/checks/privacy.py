"""Examines whether this process has the keys to what is encrypted, and to erased addresses."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from celery.signals import celeryd_after_setup
from sqlalchemy.exc import SQLAlchemyError

from ....domain.errors import ConfigurationError
from ....store.control.barring.erased import is_illegible
from ....store.queries.encryption_keys import needed
from ....worker.setup.pairing import runtime_of
from .codes import Code
from .finding import Finding, error, ok

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime

_log = logging.getLogger("outbox")

_MISSING = (
    "OUTBOX_ENCRYPTION_KEYS lacks the key {key_id}: emails that are encrypted with it are not sent"
)


_ILLEGIBLE = (
    "{what}: people who were erased before would get email again; set OUTBOX_ERASE_KEY to the"
    " former key"
)
_CHANGED = "OUTBOX_ERASE_KEY, or SECRET_KEY in its place, was changed"
_UNSET = "neither OUTBOX_ERASE_KEY nor SECRET_KEY is set"


def privacy_findings(runtime: Runtime) -> list[Finding]:
    """Return which encryption key is in use, and an error for what is missing.

    Raises DBAPIError.
    """
    key_id = runtime.cipher.key_id
    findings = (
        []
        if key_id is None
        else [ok(f"emails are encrypted with the key {key_id}", Code.ENCRYPTION_KEY)]
    )
    return findings + _lacking(runtime)


def missing_keys(runtime: Runtime, used: frozenset[str]) -> list[Finding]:
    """Return an error for each of these keys that this process lacks."""
    return [
        error(_MISSING.format(key_id=key_id), Code.ENCRYPTION_KEY)
        for key_id in runtime.cipher.missing(used)
    ]


def _lacking(runtime: Runtime) -> list[Finding]:
    """Return an error for each key that stored emails need, and for erased people unknown now."""
    database = runtime.database
    used = database.read(lambda connection: needed(connection, database))
    findings = missing_keys(runtime, used)
    if database.read(lambda connection: is_illegible(connection, database)):
        what = _UNSET if database.tombstones.secret_id is None else _CHANGED
        findings.append(error(_ILLEGIBLE.format(what=what), Code.ERASE_KEY))
    return findings


def _tell(instance: Any, **_: Any) -> None:
    """Log at a worker's start what it lacks. A database that is away is told by the tasks."""
    with suppress(ConfigurationError, SQLAlchemyError):  # another app's worker, or no tables
        for finding in _lacking(runtime_of(instance.app)):
            _log.error("outbox: %s", finding.text)


celeryd_after_setup.connect(_tell)
