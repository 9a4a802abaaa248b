"""The content of a message as its page shows it, and how much of it a visitor may see."""

from __future__ import annotations

from dataclasses import dataclass

from ...flask_ext.management.management import Management
from ...flask_ext.previews.shown import ShownEmail
from ...store.report_records import EmailDetails
from ..access.role import Visitor

SHOWN = 1_000_000
"""A larger message is read only where a person asks for it, so that its page stays fast."""
MOST_CHARACTERS = 200_000
"""The most characters of the text or of the source on a page; the file has all of it."""

HEADERS = "headers"
_ELSEWHERE = ("http:", "https:", "//", "ftp:")


@dataclass(frozen=True, kw_only=True)
class Content:
    """What is read of a message, which of its parts there are, and which one is shown."""

    shown: ShownEmail
    views: tuple[str, ...]
    view: str

    @property
    def blocked(self) -> int:
        """How many images and style sheets from elsewhere are not loaded."""
        found = [*self.shown.survey.images, *self.shown.survey.stylesheets]
        return sum(url.lower().startswith(_ELSEWHERE) for url in found)


def is_large(email: EmailDetails) -> bool:
    """Return whether a message is read only where a person asks for it."""
    return email.size > SHOWN and email.redacted_at is None


def content_of(email: EmailDetails, visitor: Visitor, wanted: str) -> Content | None:
    """Return the content; None where it is damaged or gone, or large and nobody asked for it.

    A visitor who may not read bodies gets the headers alone: the rest is not even parsed.
    """
    if is_large(email) and not wanted:
        return None
    octets = Management().source(email.id)
    if octets is None:
        return None
    if not visitor.may_read:
        octets = octets.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    shown = shown_email(email, octets)
    views: tuple[str, ...] = (HEADERS,)
    if visitor.may_read:
        parts = (("html", shown.html), ("text", shown.text))
        views = (*(name for name, part in parts if part is not None), HEADERS, "source")
    return Content(shown=shown, views=views, view=wanted if wanted in views else views[0])


def shown_email(email: EmailDetails, octets: bytes) -> ShownEmail:
    """Return the octets as the previews show them."""
    return ShownEmail(
        octets=octets,
        envelope_from=email.envelope_from,
        recipients=tuple(one.address for one in email.recipient_list),
        is_bulk=False,
    )
