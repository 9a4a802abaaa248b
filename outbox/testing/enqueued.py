"""What a test looks at: an email that was enqueued, and a delivery that the SMTP server took."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import cached_property
from typing import Any, Self

from ..domain.delivery.status import Status
from ..domain.priority import Priority
from ..store.queries.whole_emails import WholeEmail


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """Octets as a mail program shows them."""

    octets: bytes = field(repr=False)

    @cached_property
    def message(self) -> EmailMessage:
        """The whole message, for whatever has no property here."""
        return message_from_bytes(self.octets, policy=policy.default)

    @property
    def headers(self) -> dict[str, str]:
        """The decoded headers by their names. Of headers with one name the last one is left."""
        return {name: str(value) for name, value in self.message.items()}

    @property
    def subject(self) -> str:
        """The decoded subject, or ""."""
        return str(self.message["Subject"] or "")

    @property
    def sender(self) -> str:
        """The decoded `From`."""
        return str(self.message["From"] or "")

    @property
    def to(self) -> tuple[str, ...]:
        """The addresses in `To`, without the names."""
        return self._addresses("To")

    @property
    def cc(self) -> tuple[str, ...]:
        """The addresses in `Cc`, without the names."""
        return self._addresses("Cc")

    @cached_property
    def text(self) -> str:
        """The plain text with "\\n" as line ends, or "" if there is none."""
        return self._body("plain")

    @cached_property
    def html(self) -> str:
        """The HTML with "\\n" as line ends, or "" if there is none."""
        return self._body("html")

    @property
    def attachments(self) -> tuple[str, ...]:
        """The names of the files, those within the HTML included."""
        return tuple(name for part in self.message.walk() if (name := part.get_filename()))

    def _addresses(self, name: str) -> tuple[str, ...]:
        fields: list[Any] = self.message.get_all(name, [])
        return tuple(address.addr_spec for field in fields for address in field.addresses)

    def _body(self, kind: str) -> str:
        part = self.message.get_body((kind,))
        return "" if part is None else str(part.get_content()).replace("\r\n", "\n")


@dataclass(frozen=True, kw_only=True)
class EnqueuedEmail(Parsed):
    """An email as it stood when the test asked. Times are in UTC."""

    id: int
    status: Status
    priority: Priority
    key: str | None
    tag: str | None
    recipients: tuple[str, ...]  # of the envelope: those of To, Cc and Bcc
    envelope_from: str  # the address for bounces; "<>": bounces go nowhere
    attempts: int  # SMTP attempts with a verdict on the email
    due_at: datetime | None  # None if it does not wait
    send_at: datetime | None
    expires_at: datetime | None

    @property
    def bcc(self) -> tuple[str, ...]:
        """The recipients that are named neither in `To` nor in `Cc`."""
        shown = {address.lower() for address in self.to + self.cc}
        return tuple(address for address in self.recipients if address.lower() not in shown)

    @property
    def is_redacted(self) -> bool:
        """Whether its headers and texts were removed, as with `redact="when sent"`."""
        return not self.octets

    @classmethod
    def of(cls, found: WholeEmail) -> Self:
        """Return what the store has read."""
        shared = {name: value for name, value in vars(found).items() if name != "sender"}
        return cls(envelope_from=found.sender or "<>", **shared)

    def __str__(self) -> str:
        """Return a line for people."""
        to = ", ".join(self.to or self.recipients)
        return f"email {self.id} ({self.status}) to {to}: {self.subject!r}"


@dataclass(frozen=True, kw_only=True)
class Delivery(Parsed):
    """A transaction that the scripted SMTP server ended with 250."""

    envelope_from: str  # of MAIL; "<>": the null reverse path
    recipients: tuple[str, ...]  # those that it took
