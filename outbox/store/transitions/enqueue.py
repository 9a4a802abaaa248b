"""(nothing) → pending: rows in the caller's transaction, without a commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVarTuple

from sqlalchemy import Connection, Select, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from ...domain.config.search_terms import LOOKED_UP, Term
from ...domain.delivery.status import Status
from ...domain.errors import KeyConflict, KeyContention
from ...domain.priority import Priority
from ..connection.database import Database
from ..connection.error_codes import (
    is_duplicate,
    is_lock_timeout,
    is_serialization_failure,
    is_transient,
)
from ..encryption.cipher import MissingKey
from ..inserts import contents, emails
from ..inserts.chunks import in_chunks_of_bytes
from ..new_email import Coming, Entry, NewContent, NewEmail
from ..queries.encryption_keys import needed
from ..records import Email
from ..session.all_or_none import Caller, undivided
from ..session.caller_transaction import savepoint
from ..session.unread_results import refuse_unread

_CONTENTION = "another transaction holds the key and is not visible here; retry this transaction"

Columns = TypeVarTuple("Columns")


@dataclass(kw_only=True, slots=True)
class Writer:
    """Adds emails to the transaction of `connection`.

    Contents of at least `reuse_size` octets are looked for first, and reused if found. A content
    that is to be redacted is shared with no other email. The emails can be found by the terms that
    are `indexed`.
    """

    connection: Connection
    database: Database
    reuse_size: int
    indexed: Collection[Term]

    def add(self, new: NewEmail) -> Email:
        """Insert one email, or return the existing one with the same key and content.

        Raises KeyConflict if the key belongs to other content, and KeyContention if another
        transaction holds it. After either error nothing of the email is written. The transaction is
        usable, unless the database has rolled back all of it: then it can only be rolled back. A
        serialization failure of PostgreSQL stays the driver's error.
        """
        refuse_unread(self.connection)
        key = new.options.key
        if key is None:
            with savepoint(self.connection) if self._is_divided(new) else nullcontext():
                return self._insert(new)
        existing = self._existing(key, new)
        if existing is not None:
            return existing
        try:
            return self._insert_or_newest(key, new)
        except DBAPIError as error:
            if not _is_held_by_others(error):
                raise
            raise KeyContention(_CONTENTION) from None

    def _insert_or_newest(self, key: str, new: NewEmail) -> Email:
        try:
            with savepoint(self.connection):
                return self._insert(new)
        except IntegrityError as error:
            if not is_duplicate(error):
                raise
            # Another transaction took the key since the read. It has committed: else the insert
            # would still wait. MariaDB may answer a read of the newest row by rolling back
            # everything, and then it takes the savepoint to tell.
            with savepoint(self.connection):
                existing = self._existing(key, new, newest=True)
            if existing is None:
                raise KeyContention(_CONTENTION) from None
            return existing

    def add_many(self, new: Iterable[NewEmail], caller: Caller) -> int:
        """Insert emails in chunks, all of them or none; return how many were new.

        Emails with keys must come sorted by key, so that two such calls cannot deadlock. Raises
        KeyConflict and KeyContention.
        """
        with undivided(self.connection, in_chunks_of_bytes(new), caller) as read:
            return sum(map(self._add_chunk, read))

    def _add_chunk(self, chunk: list[NewEmail]) -> int:
        plain: list[NewEmail] = []
        others: list[NewEmail] = []
        for new in chunk:
            (plain if self._is_plain(new) else others).append(new)
        if plain:
            bodies = [new.content(self.indexed) for new in plain]
            emails.different(self.connection, self.database, list(self._entries(plain)), bodies)
        added = len(plain)
        for new in others:
            keyless = new.options.key is None  # needs no savepoint: the whole run is under one
            email = self._insert(new) if keyless else self.add(new)
            added += email.created
        return added

    def _is_plain(self, new: NewEmail) -> bool:
        """Whether one statement can insert the email together with others."""
        return (
            new.options.key is None
            and len(new.message.recipients) == 1
            and not self._is_reusable(new)
        )

    def _is_reusable(self, new: NewEmail) -> bool:
        return len(new.message.content) >= self.reuse_size and not new.options.redact

    def add_shared(
        self, content: NewContent, chunks: Iterable[list[NewEmail] | Coming], caller: Caller
    ) -> int:
        """Insert emails that share one content, stored once; return how many were new.

        A chunk that is not a list is read while the connection copies it. It must not be the user's
        own iterable, and its emails must have no keys. No chunk may be empty. Raises KeyConflict
        and KeyContention.
        """
        reuse = len(content.body) >= self.reuse_size
        added = 0
        with undivided(self.connection, chunks, caller) as read:
            content_id: int | None = None  # a run that adds no email stores no content
            for chunk in read:
                has_keys = isinstance(chunk, list) and any(new.options.key for new in chunk)
                fresh = _coming(self._fresh(chunk)) if isinstance(chunk, list) else chunk
                if not fresh.size:
                    continue
                if content_id is None:
                    content_id = contents.store(
                        self.connection, self.database, content, reuse=reuse
                    )
                added += self._insert_sharing(fresh, content_id, has_keys=has_keys)
        return added

    def _fresh(self, chunk: list[NewEmail]) -> list[NewEmail]:
        """Drop emails whose key and content are already in the table or earlier in the chunk."""
        keys = [new.options.key for new in chunk if new.options.key is not None]
        if not keys:
            return chunk
        taken = self._fingerprints(keys)
        fresh = []
        for new in chunk:
            key = new.options.key
            if key is None:
                fresh.append(new)
            elif key not in taken:
                taken[key] = new.fingerprint(self.database.cipher)
                fresh.append(new)
            elif not self._is_same(key, taken[key], new):
                raise KeyConflict(key)
        return fresh

    def _fingerprints(self, keys: list[str]) -> dict[str, bytes | None]:
        email = self.database.tables.email.c
        rows = self.connection.execute(
            select(email.key, email.fingerprint).where(email.key.in_(keys))
        )
        return {row.key: row.fingerprint for row in rows}

    def _insert_sharing(self, chunk: Coming, content_id: int, *, has_keys: bool) -> int:
        entries = self._entries(chunk.emails)
        try:
            return emails.sharing(self.connection, self.database, entries, chunk.size, content_id)
        except DBAPIError as error:
            if not has_keys or not _is_held_by_others(error):
                raise
            raise KeyContention(_CONTENTION) from None

    def _entries(self, chunk: Iterable[NewEmail]) -> Iterator[Entry]:
        cipher = self.database.cipher.for_many()
        return (new.entry(cipher, self.indexed) for new in chunk)

    def _is_divided(self, new: NewEmail) -> bool:
        """Whether an error or a commit could leave only a part of the rows, or of the caller's."""
        if emails.is_one_statement(self.connection):
            return False
        if self.database.facts.repeatable_read and self._is_reusable(new):
            return True  # the locking read of an equal content may end the whole transaction
        return len(new.message.recipients) > 1 or not LOOKED_UP.isdisjoint(self.indexed)

    def _insert(self, new: NewEmail) -> Email:
        message, options = new.message, new.options
        email_id = emails.one(
            self.connection,
            self.database,
            new.entry(self.database.cipher, self.indexed),
            new.content(self.indexed),
            self._is_reusable(new),
            message.recipients,
        )
        return Email(
            id=email_id,
            message_id=message.message_id,
            status=Status.PENDING,
            priority=options.priority,
            key=options.key,
            tag=options.tag,
            recipients=len(message.recipients),
            size=message.size,
            created=True,
        )

    def _existing(self, key: str, new: NewEmail, *, newest: bool = False) -> Email | None:
        email = self.database.tables.email
        statement = self._as_of(select(email).where(email.c.key == key), newest)
        row = self.connection.execute(statement).one_or_none()
        if row is None:
            return None
        if not self._is_same(key, row.fingerprint, new, newest=newest):
            raise KeyConflict(key)
        return Email(
            id=row.id,
            message_id=row.message_id,
            status=Status(row.status),
            priority=Priority(row.priority),
            key=row.key,
            tag=row.tag,
            recipients=row.recipients,
            size=row.size,
            created=False,
        )

    def _as_of(self, statement: Select[*Columns], newest: bool) -> Select[*Columns]:
        """Return the statement, so that it finds the `newest` rows if that is asked for.

        A locking read sees the newest committed row, a plain read only the snapshot. The first
        read must not lock: without a row it locks the gap, and new keys there wait.
        """
        locks = newest and self.database.facts.repeatable_read
        return statement.with_for_update(read=True) if locks else statement

    def _is_same(
        self, key: str, stored: bytes | None, new: NewEmail, *, newest: bool = False
    ) -> bool:
        """Whether the email with this key and this stored fingerprint is the new one.

        The fingerprint may be made with an earlier encryption key. If that key is gone, or an
        erasure has removed the fingerprint, nobody can tell. Then the email counts as the same,
        because its idempotency key says so.
        """
        cipher, plain = self.database.cipher, new.message.fingerprint()
        if stored is None or stored == cipher.digest(plain):
            return True
        content, email = self.database.tables.content.c, self.database.tables.email.c
        of = select(content.key_id, email.redacted_at).where(
            content.id == email.content_id, email.key == key
        )
        row = self.connection.execute(self._as_of(of, newest)).one_or_none()
        if row is None:  # it comes in the same run
            return False
        if row.redacted_at is not None:
            # The id of its encryption key was removed with its body.
            return stored in cipher.digests(plain) or self._may_lack_a_key()
        if row.key_id == cipher.key_id:
            return False
        try:
            return stored == cipher.digest_under(row.key_id, plain)
        except MissingKey:
            return True

    def _may_lack_a_key(self) -> bool:
        """Whether emails are encrypted here, so that the key of one may be gone."""
        return self.database.cipher.key_id is not None or bool(
            needed(self.connection, self.database)
        )


def _is_held_by_others(error: DBAPIError) -> bool:
    """Whether another transaction has the key, or is in the way.

    A serialization failure needs no shared key, and the app may wait for its code to repeat.
    """
    if isinstance(error, IntegrityError):
        return is_duplicate(error)
    if is_serialization_failure(error):
        return False
    return is_transient(error) or is_lock_timeout(error)  # PostgreSQL's own limit for locks


def _coming(chunk: list[NewEmail]) -> Coming:
    return Coming(len(chunk), iter(chunk))
