"""What readers of an email would miss, and what their mail programs would do to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from .shown import ShownEmail

CLIPPED = 102 * 1024
"""Octets of HTML that Gmail shows; it cuts off the rest."""
HEAVY = 25 * 1024 * 1024
"""Octets of an email that Gmail and others take at most."""
NAMED = 3
"""How many places a warning names."""

_ELSEWHERE = ("mailto", "tel", "sms", "cid", "data")
"""Schemes of URLs that need no server."""
_TAG = re.compile(r"\{\{.{0,80}?\}\}|\{%.{0,80}?%\}", re.DOTALL)


class Warning(NamedTuple):  # noqa: A001  (the word that the page uses)
    """What is wrong, and where."""

    text: str
    places: tuple[str, ...] = ()
    more: int = 0  # places that are not named


def warnings_of(email: ShownEmail, host: str) -> list[Warning]:
    """Return all warnings. `host` serves the page: its own URLs are those of development."""
    return [
        *_of_message(email),
        *_of_images(email),
        *_of_urls(email, host),
        *_of_html(email),
    ]


def _of_message(email: ShownEmail) -> Iterator[Warning]:
    if not email.header("Subject").strip():
        yield Warning("There is no subject.")
    if not (email.text or "").strip():
        if email.html is None:
            yield Warning("There is neither a text nor an HTML part.")
        else:
            yield Warning(
                "There is no text part: spam filters, and readers without HTML, want one."
            )
    if len(email.octets) > HEAVY:
        text = "The email has over 25 MB: Gmail and others refuse it. Link to large files instead."
        yield Warning(text)
    if email.is_bulk and not email.header("List-Unsubscribe"):
        text = "Bulk without List-Unsubscribe: give unsubscribe=. Large receivers require it."
        yield Warning(text)
    texts = [email.header("Subject"), email.text or "", email.html or ""]
    yield from _places("A placeholder was not filled in.", _tags(texts))


def _tags(texts: Iterable[str]) -> list[str]:
    return [found for text in texts for found in _TAG.findall(text)]


def _of_images(email: ShownEmail) -> Iterator[Warning]:
    found = email.survey
    text = 'An image has no alt: many readers see no images. Give alt="" to an ornament.'
    yield from _places(text, found.without_alt)
    text = "An image is named by cid: and is not in the message."
    yield from _places(text, email.missing_images)
    inline = [url for url in found.images if url.lower().startswith("data:")]
    if inline:
        yield Warning(
            "An image is a data: URL: Gmail and Outlook do not show it. Attach it (cid:)."
        )


def _of_urls(email: ShownEmail, host: str) -> Iterator[Warning]:
    found = email.survey
    named = [*(link.url for link in found.links), *found.images]
    urls = [
        (url, split) for url in named if url and (split := _split(url)).scheme not in _ELSEWHERE
    ]
    relative = [url for url, split in urls if not split.scheme and not url.startswith("#")]
    text = "A URL is relative: an email has no page that it could belong to."
    yield from _places(text, relative)
    others = [(url, split) for url, split in urls if split.netloc and split.netloc != host]
    text = "A URL begins with http: and is not encrypted."
    yield from _places(text, [url for url, split in others if split.scheme == "http"])
    text = "A URL leads to a machine that readers cannot reach."
    yield from _places(text, [url for url, split in others if _is_local(split)])
    empty = [link.text or "(no text)" for link in found.links if link.url in ("", "#")]
    yield from _places("A link leads nowhere.", empty)
    bare = [link.url for link in found.links if link.url and not link.text]
    yield from _places("A link has no text: a screen reader has nothing to say.", bare)


def _of_html(email: ShownEmail) -> Iterator[Warning]:
    found = email.survey
    if email.html_size > CLIPPED:
        size = email.html_size / 1024
        yield Warning(f"The HTML has {size:.0f} KB: Gmail clips it after 102 KB.")
    text = "A style sheet is loaded from elsewhere: mail programs do not. Write it into the email."
    yield from _places(text, [*found.stylesheets, *(["@import"] if found.imports else [])])
    text = "Mail programs remove this element, or do not run it."
    yield from _places(text, [f"<{name}>" for name in sorted(found.stripped)])
    scripts = [link.url for link in found.links if _split(link.url).scheme == "javascript"]
    text = "Mail programs run no scripts."
    yield from _places(text, [*sorted(found.handlers), *scripts])


def _places(text: str, places: Iterable[str]) -> Iterator[Warning]:
    """Yield the warning, if there is a place to warn of."""
    known = list(dict.fromkeys(places))
    if known:
        yield Warning(text, tuple(known[:NAMED]), len(known[NAMED:]))


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # such as a host in brackets that is no address
        return SplitResult("", "", url, "", "")


def _is_local(url: SplitResult) -> bool:
    name = (url.hostname or "").lower()
    if name == "localhost" or name.endswith((".localhost", ".local", ".test", ".internal")):
        return True
    try:
        return ip_address(name).is_private
    except ValueError:
        return False
