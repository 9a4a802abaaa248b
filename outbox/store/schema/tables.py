"""The tables on the app's own metadata, where `create_all()` and Alembic find them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from sqlalchemy import MetaData, Table

from ...domain.errors import ConfigurationError
from . import (
    audit_tables,
    control_tables,
    email_tables,
    fleet_tables,
    instance_table,
    privacy_tables,
    retention_tables,
    search_tables,
    stat_tables,
)


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The outbox's tables on one metadata."""

    email: Table
    content: Table
    recipient: Table
    attempt: Table
    lease: Table
    breaker: Table
    server: Table
    bucket: Table
    pause: Table
    suppression: Table
    erased: Table
    counter: Table
    purge: Table
    straggler: Table
    audit: Table
    job: Table
    instance: Table
    tally: Table
    stat: Table
    worker: Table
    lookup: Table
    body_straggler: Table


def define(metadata: MetaData) -> Tables:
    """Return the tables on this metadata; define them the first time.

    Raises ConfigurationError if one of the app's own tables has the name of an outbox table.
    """
    makers = {
        "content": email_tables.content,
        "email": email_tables.email,
        "recipient": email_tables.recipient,
        "attempt": email_tables.attempt,
        "lease": control_tables.lease,
        "breaker": control_tables.breaker,
        "server": control_tables.server,
        "bucket": control_tables.bucket,
        "pause": control_tables.pause,
        "suppression": control_tables.suppression,
        "erased": privacy_tables.erased,
        "counter": control_tables.counter,
        "purge": retention_tables.purge,
        "straggler": retention_tables.straggler,
        "body_straggler": retention_tables.body_straggler,
        "audit": audit_tables.audit,
        "job": audit_tables.job,
        "instance": instance_table.instance,
        "tally": stat_tables.tally,
        "stat": stat_tables.stat,
        "worker": fleet_tables.worker,
        "lookup": search_tables.lookup,
    }
    prefix = f"{metadata.schema}." if metadata.schema else ""
    made = {
        name: _ours(metadata.tables[full], maker)
        if (full := f"{prefix}outbox_{name}") in metadata.tables
        else maker(metadata)
        for name, maker in makers.items()
    }
    return Tables(**made)


def _ours(found: Table, maker: Callable[[MetaData], Table]) -> Table:
    """Return a table that was defined before or reflected, if it has all the outbox's columns."""
    if missing := _columns(maker).difference(found.columns.keys()):
        raise ConfigurationError(
            f"the table {found.fullname} of your metadata is not the outbox's (it lacks"
            f" {min(missing)}): rename your model's table, or call init_app before you reflect an"
            " older database's tables"
        )
    return found


@cache
def _columns(maker: Callable[[MetaData], Table]) -> frozenset[str]:
    return frozenset(maker(MetaData()).columns.keys())
