"""Finds emails in the demo's inbox by what their headers say.

An inbox may hold twenty thousand emails, so only those are parsed whose octets may have the words.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..maildir import Maildir
from .inbox_entry import Entry, entry_of, header_of, parse

LONGEST = 200
"""Characters of a query. More would only cost time."""


def search(maildir: Maildir, query: str) -> list[Entry]:
    """Return the emails whose sender, recipient, subject or Message-ID has the query's words."""
    words = query[:LONGEST].lower().split()
    return [
        entry for name, head in _candidates(maildir, words) if (entry := _match(name, head, words))
    ]


def by_message_id(maildir: Maildir, message_id: str) -> Entry | None:
    """Return the newest email with this Message-ID, or None."""
    sought = message_id.strip()
    octets = sought.encode("utf-8", "replace")
    for name, head in maildir.heads():
        if octets in head and header_of(parse(head), "Message-ID").strip() == sought:
            return entry_of(name, head)
    return None


def _candidates(maildir: Maildir, words: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the emails whose headers may have all words: encoded text is not read here."""
    plain = [word.encode() for word in words if word.isascii()]
    all_plain = len(plain) == len(words)
    for name, head in maildir.heads():
        is_encoded = b"=?" in head or not head.isascii()
        lowered = head.lower()
        if is_encoded or (all_plain and all(word in lowered for word in plain)):
            yield name, head


def _match(name: str, head: bytes, words: list[str]) -> Entry | None:
    entry = entry_of(name, head)
    message_id = header_of(parse(head), "Message-ID")
    text = " ".join((entry.sender, entry.recipient, entry.subject, message_id)).lower()
    return entry if all(word in text for word in words) else None
