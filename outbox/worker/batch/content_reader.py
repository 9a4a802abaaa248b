"""Reads a batch's contents ahead in bounded portions; a content that emails share is read once."""

from __future__ import annotations

from collections.abc import Sequence

from ...domain.message.merge_template import Template, merged
from ...store.connection.database import Database
from ...store.inserts import contents
from ...store.records import ClaimedEmail
from ..process.retry_writes import until_written


class ContentReader:
    """Holds the contents of the next emails, of about `limit` bytes at a time."""

    def __init__(self, database: Database, limit: int) -> None:
        self._database = database
        self._limit = limit
        self._order: list[ClaimedEmail] = []
        self._place: dict[int, int] = {}
        self._held: dict[int, bytes] = {}
        self._templates: dict[int, Template] = {}  # of the contents that are held

    def prefetch(self, emails: Sequence[ClaimedEmail]) -> None:
        """Set which emails will be asked for, in their order."""
        self._order = list(emails)
        self._place = {email.id: place for place, email in enumerate(self._order)}

    def body(self, email: ClaimedEmail) -> bytes | None:
        """Return the email's bytes as they are sent, or None if they are missing or damaged."""
        if email.content_id not in self._held:
            self._read_from(self._place[email.id])
        body = self._held.get(email.content_id)
        if body is not None and email.merge is not None:
            body = self._merged(email.content_id, body, email.merge)
        if body is None or len(email.headers) + len(body) != email.size:
            return None
        return email.headers + body

    def _merged(self, content_id: int, octets: bytes, values: str) -> bytes | None:
        template = self._templates.get(content_id)
        try:
            if template is None:
                template = self._templates[content_id] = Template(octets)
            return merged(template, values)
        except ValueError:  # the stored content is not what was enqueued
            return None

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
        database = self._database
        self._held = {}  # the last portion is freed before the next one is read
        self._templates = {}
        # It is read within a window: an error here must not lose results that are not yet written.
        self._held = until_written(
            lambda: database.read(lambda c: contents.read(c, database, wanted))
        )
