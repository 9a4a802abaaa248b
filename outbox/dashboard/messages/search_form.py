"""What the form of the list asks for: the filters of `Outbox.list`, and one field that guesses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from ...domain.config.enqueue_options import MAX_KEY, MAX_TAG
from ...domain.errors import InvalidMessage
from ...domain.search.subject import MAX_SUBJECT
from ...store.report_records import EmailDetails

_MAX_ADDRESS = 320
_MAX_MESSAGE_ID = 998
_MAX_PLACE = 200
LONGEST = {
    "q": MAX_SUBJECT,
    "recipient": _MAX_ADDRESS,
    "message_id": _MAX_MESSAGE_ID,
    "subject": MAX_SUBJECT,
    "key": MAX_KEY,
    "tag": MAX_TAG,
    "status": 20,
    "since": 10,
    "until": 10,
    "domain": 255,
    "server": 255,
    "reply": 20,
    "phase": 10,
    "after": _MAX_PLACE,
}
"""The fields, and the most characters of each."""
_GUESSED = ("recipient", "message_id", "subject")


@dataclass(frozen=True, kw_only=True)
class SearchForm:
    """The fields as they were filled in; an empty one leaves its filter open."""

    fields: Mapping[str, str]

    @classmethod
    def read(cls, given: Mapping[str, str]) -> SearchForm:
        """Read the fields, without the blanks around them. Raises InvalidMessage if one is long."""
        for name, longest in LONGEST.items():
            if len(given.get(name, "")) > longest:
                raise InvalidMessage(name, f"must be text of at most {longest} characters")
        return cls(fields={name: given.get(name, "").strip() for name in LONGEST})

    @property
    def filled(self) -> dict[str, str]:
        """The fields that select something."""
        return {name: text for name, text in self.fields.items() if text and name != "after"}

    @property
    def is_exact(self) -> bool:
        """Whether one of the fields beside the first, the status and the tag is used."""
        return not self.filled.keys() <= {"q", "status", "tag"}

    @property
    def number(self) -> int | None:
        """The id of a message, if the first field has one."""
        text = self.fields["q"]
        is_number = not self.is_exact and text.isascii() and text.isdigit()
        return int(text) if is_number and 0 < int(text) < 2**63 else None

    def is_met_by(self, email: EmailDetails | None) -> bool:
        """Whether the message is there, and has the status and the tag, if any are given."""
        if email is None:
            return False
        found = {"status": email.status.value, "tag": email.tag}
        return all(self.filled.get(name, value) == value for name, value in found.items())

    def filters(self) -> list[dict[str, Any]]:
        """Return the filters, and others to try if those fit nothing.

        Something with an @ may be an address, and may be a Message-ID. Raises InvalidMessage.
        """
        given: dict[str, Any] = {k: v for k, v in self.filled.items() if k != "q"}
        if "since" in given:
            given["since"] = _day("since", given["since"])
        if "until" in given:
            given["until"] = _day("until", given["until"], is_whole=True)
        return [given | guess for guess in _guesses(self.fields["q"])]

    def texts(self, filters: Mapping[str, Any]) -> dict[str, str]:
        """Return one of these `filters` as fields, each with what it guessed in its own one."""
        guessed = {name: str(filters[name]) for name in _GUESSED if name in filters}
        return {k: v for k, v in self.filled.items() if k != "q"} | guessed


_PASTED = re.compile(r"(mailto|message-id|to|cc):\s*", re.IGNORECASE)
"""What stands before an address or a Message-ID where people copy it from; a `match` of it."""


def _guesses(text: str) -> list[dict[str, str]]:
    if not text:
        return [{}]
    guesses: list[dict[str, str]] = []
    if "@" in text:
        pasted = text[found.end() :] if (found := _PASTED.match(text)) else text
        inner = pasted.rpartition("<")[2].removesuffix(">") if pasted.endswith(">") else pasted
        if not any(map(str.isspace, inner.rpartition("@")[2])):
            guesses = [{"recipient": inner}, {"message_id": inner}]
    if not guesses or any(map(str.isspace, text)):
        guesses.append({"subject": text})
    return guesses


def _day(name: str, text: str, *, is_whole: bool = False) -> datetime:
    """Return when the day begins; with `is_whole` when the next one does."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidMessage(name, "must be a date such as 2026-11-24") from None
    begins = datetime.combine(day, datetime.min.time(), UTC)
    return begins + timedelta(days=1) if is_whole and day < date.max else begins
