"""The images that an HTML part takes from its own message, put into the HTML itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .inert import inert

MOST = 40_000_000
"""The most characters that the HTML may have with its images. A message of the default
`OUTBOX_MAX_SIZE` has room for each image that it carries in base64. Without a limit, one that names
an image thousands of times would fill the memory of the process that shows it."""

_CID = re.compile(r"cid:([^\s\"'<>)]+)", re.IGNORECASE)


class Framed(NamedTuple):
    """The HTML for its frame."""

    html: str
    left_out: int  # places whose image is in the message, and would have made the HTML too long


def content_id_of(url: str) -> str | None:
    """Return which part of the message a URL names, or None if it names none."""
    found = _CID.match(url)
    return found[1] if found else None


def framed(html: str, image_of: Callable[[str], str | None]) -> Framed:
    """Put in the image of each Content-ID, as far as there is room.

    `image_of` returns it as a `data:` URL, or None. A place without its image stays as it is. What
    would connect to other hosts is made inert.
    """
    pieces, rest, room, left_out = list[str](), 0, MOST - len(html), 0
    for found in _CID.finditer(html):
        image = image_of(found[1])
        if image is None:
            continue
        longer = len(image) - len(found[0])
        if longer > room:
            left_out += 1
            continue
        pieces += html[rest : found.start()], image
        rest, room = found.end(), room - longer
    return Framed(inert("".join([*pieces, html[rest:]])), left_out)
