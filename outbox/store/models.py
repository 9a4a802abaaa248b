"""The tables on the app's own metadata, where `create_all()` and Alembic find them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import MetaData, Table

from . import control_tables, mail_tables


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Our tables on one metadata."""

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
    counter: Table
    purge: Table
    straggler: Table


def define(metadata: MetaData) -> Tables:
    """Return the tables on this metadata, making them the first time."""
    makers = {
        "content": mail_tables.content,
        "email": mail_tables.email,
        "recipient": mail_tables.recipient,
        "attempt": mail_tables.attempt,
        "lease": control_tables.lease,
        "breaker": control_tables.breaker,
        "server": control_tables.server,
        "bucket": control_tables.bucket,
        "pause": control_tables.pause,
        "suppression": control_tables.suppression,
        "counter": control_tables.counter,
        "purge": control_tables.purge,
        "straggler": control_tables.straggler,
    }
    prefix = f"{metadata.schema}." if metadata.schema else ""
    made = {
        name: metadata.tables[full]
        if (full := f"{prefix}outbox_{name}") in metadata.tables
        else maker(metadata)
        for name, maker in makers.items()
    }
    return Tables(**made)
