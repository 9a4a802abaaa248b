"""Header lines that the outbox adds to a message: RFC 3834, RFC 2369, RFC 8058.

This is the place to add another. `AddedHeaders.common` returns the lines that all readers share,
`own` those of one reader, and `names` the names of both. The callers add what they get.

What asks for a header is an option of the public calls. So its name and type stand in three more
places: `enqueue` and `enqueue_many` of `flask_ext/extension.py`, and the options of
`flask_ext/asynchronous.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from email.message import Message
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ..errors import InvalidMessage
from .address import check_address

MAX_URL = 900
"""Characters, so that the header fits in a line of 998 octets: a folded URL does not work."""

URLs = str | Sequence[str]
"""The https URL that unsubscribes one reader, alone or beside a mailto URL."""
URLOf = Callable[[Any], URLs]
"""Returns these URLs for an address or for a message."""

_KINDS = ("auto-generated", "auto-replied", "auto-notified")
_WORD = re.compile(r"\s*[A-Za-z-]+")
_URL = re.compile(r"https://[!#-;=?-~]+")
_MAILTO = re.compile(r"mailto:(?P<address>[!#-;=-~]+?)(?:\?[!#-;=?-~]*)?")
_ONE_CLICK = b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"


class AddedHeaders(NamedTuple):
    """The headers to add: Auto-Submitted (RFC 3834 §5), one-click unsubscription (RFC 8058)."""

    auto_submitted: str | None = None
    unsubscribe: URLs | URLOf | None = None

    @classmethod
    def check(cls, *, auto_submitted: Any = None, unsubscribe: Any = None) -> AddedHeaders:
        """Return what is asked for; `unsubscribe` is URLs or a function. Raises InvalidMessage."""
        if auto_submitted is True:
            auto_submitted = "auto-generated"
        if auto_submitted not in (None, False, *_KINDS):
            raise InvalidMessage("auto_submitted", f"must be True or one of {', '.join(_KINDS)}")
        if unsubscribe is not None and not callable(unsubscribe):
            check_urls(unsubscribe)
        return cls(auto_submitted=auto_submitted or None, unsubscribe=unsubscribe)

    def common(self) -> bytes:
        """Return the header lines that are the same for every reader."""
        kind = f"Auto-Submitted: {self.auto_submitted}\r\n".encode() if self.auto_submitted else b""
        return kind + (_ONE_CLICK if self.unsubscribe is not None else b"")

    def own(self, reader: object) -> bytes:
        """Return one reader's header lines: the URLs, or what the function returns for `reader`.

        `reader` is an address, or the message to it. Raises InvalidMessage.
        """
        if self.unsubscribe is None:
            return b""
        given = self.unsubscribe(reader) if callable(self.unsubscribe) else self.unsubscribe
        urls = ",\r\n ".join([f"<{url}>" for url in check_urls(given)])
        return f"List-Unsubscribe: {urls}\r\n".encode()

    @property
    def has_own(self) -> bool:
        """Whether readers have lines of their own, so that `own` is to be asked for each."""
        return self.unsubscribe is not None

    def names(self) -> dict[str, str]:
        """Return the names of all lines, each with the argument that asked for it."""
        found: dict[str, str] = {}
        if self.auto_submitted:
            found["Auto-Submitted"] = "auto_submitted"
        if self.unsubscribe is not None:
            found["List-Unsubscribe"] = found["List-Unsubscribe-Post"] = "unsubscribe"
        return found

    def refuse_repeated(self, message: Message[Any, Any]) -> None:
        """Raise InvalidMessage where the message has one of these headers already."""
        for name, argument in self.names().items():
            if name in message:
                raise InvalidMessage(argument, "the message already has this header")

    def refuse_several(self, recipients: int) -> None:
        """Raise InvalidMessage where one message to several recipients has one reader's lines."""
        if self.has_own and recipients > 1:
            rule = "the URL belongs to one reader: enqueue an email for each (RFC 8058 §3.1)"
            raise InvalidMessage("unsubscribe", rule)

    def is_automatic(self, message: object) -> bool:
        """Whether the message is automatic: it is to be marked so, or its own header says so."""
        if self.auto_submitted:
            return True
        headers = message if isinstance(message, Message) else getattr(message, "extra_headers", {})
        own = {name.lower(): value for name, value in (headers or {}).items()}
        word = _WORD.match(str(own.get("auto-submitted", "no")))  # a comment may follow
        return word is not None and word[0].strip().lower() != "no"


def check_urls(given: object) -> tuple[str, ...]:
    """Return the URLs in their order: one https URL, and at most one mailto URL beside it.

    RFC 8058 §3.1 requires https. RFC 2369 §3.2 has mailto for programs that know nothing else.
    Raises InvalidMessage.
    """
    if not isinstance(given, (list, tuple)):
        return (check_url(given),)
    addresses = [url for url in given if isinstance(url, str) and url.startswith("mailto:")]
    if len(given) - len(addresses) != 1 or len(addresses) > 1:
        raise InvalidMessage(
            "unsubscribe", "must be one https URL, with at most one mailto URL beside it"
        )
    return tuple(_check_mailto(url) if url in addresses else check_url(url) for url in given)


def _check_mailto(url: str) -> str:
    found = _MAILTO.fullmatch(url)
    if found is None or len(url) > MAX_URL:
        rule = f"a mailto URL must be printable ASCII of at most {MAX_URL} characters (RFC 6068)"
        raise InvalidMessage("unsubscribe", rule)
    check_address(unquote(found["address"]), "unsubscribe")
    return url


def check_url(url: object) -> str:
    """Return the URL, or raise InvalidMessage: RFC 8058 §3.1 requires https."""
    if not isinstance(url, str) or not _URL.fullmatch(url) or not _has_host(url):
        raise InvalidMessage("unsubscribe", "must be an https URL in printable ASCII (RFC 8058)")
    if len(url) > MAX_URL:
        raise InvalidMessage("unsubscribe", f"a URL has at most {MAX_URL} characters")
    return url


def _has_host(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname)
    except ValueError:
        return False
