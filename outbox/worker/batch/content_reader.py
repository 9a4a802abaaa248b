"""Reads a batch's contents ahead in bounded portions; a content that emails share is read once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from ...domain.message.merge_template import Template, merged
from ...store.connection.database import Database
from ...store.connection.error_codes import ANSWERS, code_of, describe
from ...store.encryption.parts import Content, open_content, open_own, owner_of
from ...store.inserts import contents
from ...store.records import ClaimedEmail
from ..process.retry_writes import until_written


class UnreadableContent(Exception):
    """The database is well, but it cannot read this content, which it has."""


class NotHeld(Exception):
    """The lease no longer holds, so the email may not leave, and nothing is to be read for it."""


class ContentReader:
    """Holds the contents of the next emails, of about `limit` bytes at a time."""

    def __init__(
        self,
        database: Database,
        limit: int,
        *,
        clock: Callable[[], float],
        holds: Callable[[], bool],
        term: float,
    ) -> None:
        """`holds` returns whether the lease holds, which is renewed for `term` seconds."""
        self._database = database
        self._limit = limit
        self._clock = clock
        self._holds = holds
        self._term = term
        self._order: list[ClaimedEmail] = []
        self._place: dict[int, int] = {}
        self._contents: dict[int, Content] = {}
        self._decrypted: set[int] = set()  # those of them that are in clear by now
        self._templates: dict[int, Template] = {}  # of the contents at hand

    def prefetch(self, emails: Sequence[ClaimedEmail]) -> None:
        """Set which emails will be asked for, in their order."""
        self._order = list(emails)
        self._place = {email.id: place for place, email in enumerate(self._order)}

    def body(self, email: ClaimedEmail) -> bytes | None:
        """Return the email's bytes as they are sent, or None if they are missing or damaged.

        Raises MissingKey, UnreadableContent and NotHeld.
        """
        if email.content_id not in self._contents:
            self._read_from(self._place[email.id])
        stored = self._contents.get(email.content_id)
        if stored is None:
            return None
        try:
            octets = self._octets(email, stored)
        except ValueError:  # what is stored is not what was enqueued
            return None
        return octets if len(octets) == email.size else None

    def _octets(self, email: ClaimedEmail, stored: Content) -> bytes:
        headers, body, values = email.headers, stored.octets, email.merge
        if (key_id := stored.key_id) is not None:
            cipher = self._database.cipher
            body = self._in_clear(email, stored).octets
            headers, values = open_own(cipher, key_id, headers, values, email.message_id)
        if values is not None:
            body = merged(self._template(email.content_id, body), values)
        return headers + body

    def _in_clear(self, email: ClaimedEmail, stored: Content) -> Content:
        """Return an encrypted content in clear; one that emails share is decrypted once."""
        if email.content_id in self._decrypted:
            return stored
        owner = owner_of(email.headers, email.message_id)
        opened = open_content(self._database.cipher, stored, owner)
        self._contents[email.content_id] = opened
        self._decrypted.add(email.content_id)
        return opened

    def _template(self, content_id: int, octets: bytes) -> Template:
        found = self._templates.get(content_id)
        if found is None:
            found = self._templates[content_id] = Template(octets)
        return found

    def _read_from(self, place: int) -> None:
        wanted: set[int] = set()
        size = 0
        for email in self._order[place:]:
            if email.content_id in wanted:
                continue
            size += email.size
            if wanted and size > self._limit:
                break
            wanted.add(email.content_id)
        self._contents = {}  # the last portion is freed before the next one is read
        self._decrypted = set()
        self._templates = {}
        try:
            self._contents = self._read(wanted)
        except ANSWERS:  # one of these contents may be at fault
            self._contents = self._read_alone(self._order[place].content_id)

    def _read(self, wanted: Collection[int]) -> dict[int, Content]:
        """Read contents, and once more from the primary where a replica may not have them yet."""
        database = self._database
        found = database.read(lambda connection: contents.read(connection, database, wanted))
        if left := set(wanted) - found.keys():
            again = partial(contents.read_from_primary, database=database, ids=left)
            found |= database.run(again)
        return found

    def _read_alone(self, content_id: int) -> dict[int, Content]:
        """Read one content, whatever the database answers meanwhile.

        It is read within a window: an error here must not lose results that are not yet written.
        Raises UnreadableContent if the database took a renewal of the lease after the first error,
        so that it is the content's own. Else its email would keep this batch, and then the next.
        Raises NotHeld if the lease has run out meanwhile, or is lost.
        """
        failed_at: list[float] = []

        def read() -> dict[int, Content]:
            try:
                return self._read([content_id])
            except ANSWERS as error:
                failed_at.append(self._clock())
                if failed_at[-1] - failed_at[0] <= self._term:
                    raise
                if not self._holds():
                    raise NotHeld from error
                if code_of(error) is not None:  # a pool without connections has none
                    raise UnreadableContent(describe(error)) from error
                raise

        return until_written(read)
