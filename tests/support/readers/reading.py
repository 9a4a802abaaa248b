"""The foreign programs that read the corpus, and what they are known to misread."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.corpus.meant import Meant
from tests.support.corpus.whole import CORPUS
from tests.support.readers import email_mime, go_library, notmuch
from tests.support.readers.seen import Read, differences

READERS: dict[str, Read] = {
    "Email::MIME": email_mime.read,
    "notmuch": notmuch.read,
    "Go": go_library.read,
}

UNREAD: dict[str, tuple[re.Pattern[bytes], str]] = {
    "notmuch": (
        re.compile(rb"=\?utf-8\?b\?[^?]*=\?=\s+=\?utf-8\?b\?.*\?=", re.IGNORECASE),
        "GMime ends a run of words in base64 at the first padding, though each is one by itself"
        " (RFC 2047 §5)",
    ),
    "Email::MIME": (
        re.compile(rb"[\x80-\xff]"),
        "Email::MIME takes a header in UTF-8 for Latin-1 (RFC 6532 §3.2)",
    ),
}
"""What a reader shows otherwise than it stands there, whoever wrote it: what such a header has.

Of these the first is written by the standard library alone, and not by us.
"""


def misread(
    reader: str,
    messages: Mapping[str, bytes],
    folder: Path,
    meant: Mapping[str, Meant] = CORPUS,
) -> dict[str, object]:
    """Return what this reader sees otherwise than it was meant, by the names of the messages.

    What it is known to misread must be misread, or it stands in `UNREAD` for nothing.
    """
    with TemporaryDirectory(dir=folder) as own:
        seen = READERS[reader](messages, Path(own))
    found: dict[str, object] = {name: differences(seen[name], meant[name]) for name in messages}
    for name, data in messages.items():
        if is_unread(reader, data):
            found[name] = None if found[name] else "is read as it was meant after all"
    return {name: difference for name, difference in found.items() if difference}


def is_unread(reader: str, message: bytes) -> bool:
    """Whether the message has what this reader is known to misread."""
    head = re.split(rb"\r?\n\r?\n", message, maxsplit=1)[0]
    return reader in UNREAD and UNREAD[reader][0].search(head) is not None
