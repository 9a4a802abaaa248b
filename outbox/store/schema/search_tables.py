"""The table by which emails are found: an inverted index, written at enqueue and never changed."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, MetaData, Table

from .column_types import ID, TABLE_OPTIONS


def lookup(metadata: MetaData) -> Table:
    """Return the lookup: a row for each indexed term of an email, by the term's digest.

    An index on the emails would cost a claim and a record an entry each. This table costs the
    enqueue alone. There is no foreign key, because its check would lock the email's row. The
    purge removes an email's rows with it.
    """
    return Table(
        "outbox_lookup",
        metadata,
        Column("digest", BigInteger, primary_key=True, autoincrement=False),
        Column("email_id", ID, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,  # the table is its primary key's index, as InnoDB's tables are
        **TABLE_OPTIONS,
    )
