"""An email as the page shows it: taken apart again from the octets that would leave."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from ...domain.mime.reading import body_of, body_text, file_name, header_text, parsed
from .html_survey import Survey, survey
from .inline_images import Framed, content_id_of, framed


@dataclass(frozen=True, kw_only=True)
class File:
    """A part that is neither the text nor the HTML."""

    name: str
    kind: str
    content: bytes = field(repr=False)  # decoded

    @property
    def size(self) -> int:
        """The octets of the content."""
        return len(self.content)


@dataclass(frozen=True, kw_only=True)
class ShownEmail:
    """One email: its octets, and its envelope."""

    octets: bytes
    envelope_from: str  # the address for bounces; "<>": bounces go nowhere
    recipients: tuple[str, ...]
    is_bulk: bool  # a newsletter: its readers need a way to leave

    @cached_property
    def message(self) -> EmailMessage:
        """The parsed message."""
        return parsed(self.octets)

    @cached_property
    def headers(self) -> list[tuple[str, str]]:
        """The decoded headers in their order; one that cannot be decoded is shown as it is."""
        return [(name, header_text(name, raw)) for name, raw in self.message.raw_items()]

    def header(self, name: str) -> str:
        """Return the decoded header, or "" if there is none."""
        return next((text for found, text in self.headers if found.lower() == name.lower()), "")

    @property
    def hidden(self) -> tuple[str, ...]:
        """The recipients whom no header names."""
        shown = (self.header("To") + self.header("Cc")).lower()
        return tuple(one for one in self.recipients if one.lower() not in shown)

    @cached_property
    def text(self) -> str | None:
        """The plain text, or None."""
        return body_text(self.message, "plain")

    @cached_property
    def html(self) -> str | None:
        """The HTML as it is in the message, or None."""
        return body_text(self.message, "html")

    @cached_property
    def survey(self) -> Survey:
        """What is in the HTML."""
        return survey(self.html or "")

    @property
    def html_size(self) -> int:
        """The octets of the HTML, decoded."""
        return len((self.html or "").encode("utf-8", "replace"))

    @cached_property
    def framed(self) -> Framed:
        """The HTML with the images that are parts of the message put in as `data:` URLs."""
        return framed(self.html or "", self._inline)

    @property
    def missing_images(self) -> list[str]:
        """The images that the HTML takes from the message, and that are not in it."""
        named = map(content_id_of, self.survey.images)
        return [one for one in named if one is not None and not self._inline(one)]

    @cached_property
    def files(self) -> list[File]:
        """The attachments, and the images within the HTML."""
        bodies = [body_of(self.message, kind) for kind in ("plain", "html")]
        found = []
        for part in _leaves(self.message):
            if any(part is body for body in bodies):
                continue
            name = file_name(part) or str(part.get("Content-ID", "")) or "(no name)"
            found.append(File(name=name, kind=part.get_content_type(), content=_content(part)))
        return found

    @property
    def source(self) -> str:
        """The octets as text."""
        return self.octets.decode("utf-8", "backslashreplace").replace("\r\n", "\n")

    def _inline(self, content_id: str) -> str | None:
        return self._images.get(content_id) or self._images.get(unquote(content_id))

    @cached_property
    def _images(self) -> dict[str, str]:
        """The images with a Content-ID, as `data:` URLs."""
        found = {}
        for part in self.message.walk():
            content_id = str(part.get("Content-ID", "")).strip().strip("<>")
            if content_id and part.get_content_maintype() == "image":
                content: Any = part.get_payload(decode=True) or b""
                encoded = b64encode(content).decode()
                found[content_id] = f"data:{part.get_content_type()};base64,{encoded}"
        return found


def _leaves(part: Any) -> Iterator[Any]:
    """Yield the parts that have a content of their own; an attached message is one of them."""
    if part.get_content_maintype() == "multipart" and part.is_multipart():
        for one in part.get_payload():
            yield from _leaves(one)
    else:
        yield part


def _content(part: Any) -> bytes:
    if part.is_multipart():  # an attached message
        return b"".join(one.as_bytes() for one in part.get_payload())
    decoded: bytes = part.get_payload(decode=True) or b""
    return decoded
