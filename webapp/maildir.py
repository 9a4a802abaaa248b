"""A Maildir that the SMTP catcher writes and `/inbox` reads.

A file appears in `new/` by a rename, so that a reader sees whole emails only. Names begin with the
time of arrival in nanoseconds, so that their order is the order of arrival.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

HEAD = 16_384  # octets
_NAME = re.compile(r"[0-9]{20}\.[0-9]+\.[0-9]{8}")


class Maildir:
    """One directory of emails. It is for demos only: nothing is flushed to the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._numbers = itertools.count()
        for part in ("tmp", "new", "cur"):
            (path / part).mkdir(parents=True, exist_ok=True)

    def add(self, mail: bytes) -> str:
        """Store an email and return its name."""
        name = f"{time.time_ns():020}.{os.getpid()}.{next(self._numbers):08}"
        draft = self.path / "tmp" / name
        draft.write_bytes(mail)
        draft.rename(self.path / "new" / name)
        return name

    def names(self) -> list[str]:
        """Return every email's name, newest first."""
        return sorted(os.listdir(self.path / "new"), reverse=True)

    def heads(self) -> Iterator[tuple[str, bytes]]:
        """Yield each email's name and header, newest first. A header is cut at 16 KiB."""
        for name in self.names():
            try:
                with (self.path / "new" / name).open("rb") as file:
                    start = file.read(HEAD)
            except FileNotFoundError:  # removed meanwhile
                continue
            yield name, start.partition(b"\r\n\r\n")[0]

    def read(self, name: str) -> bytes | None:
        """Return an email's bytes, or None where there is no such email."""
        if not _NAME.fullmatch(name):  # a name comes from a URL: only our own form is accepted
            return None
        try:
            return (self.path / "new" / name).read_bytes()
        except FileNotFoundError:
            return None


def arrival(name: str) -> datetime:
    """Return when the email of this name arrived."""
    return datetime.fromtimestamp(int(name[:20]) / 1e9, UTC)
