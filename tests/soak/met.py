"""Whether anybody met a fault: it is counted where it shows, and not believed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

READ_ONLY = "25006"
"""The SQLSTATE of a write to a read-only database: our logs, and the server's, quote it."""

NO_CONNECTION = "(TimeoutError)"
"""How our logs name SQLAlchemy's error of a pool that has no connection left."""

_TABLE = Path("/proc/net/tcp")
_ESTABLISHED, _LISTEN = "01", "0A"


class Logs:
    """Counts a text in log files from now on, or from their beginning."""

    def __init__(self, files: Iterable[Path], text: str, *, whole: bool = False) -> None:
        self._text = text.encode()
        self._from = {file: 0 if whole else _size(file) for file in files}

    def count(self, *, before: str = "") -> int:
        """Return how often the text stands there; none unless it stands `before` this other."""
        found = 0
        for file, start in self._from.items():
            _, text, rest = _rest(file, start).partition(self._text)
            if text and before.encode() in rest:
                found += 1 + rest.count(self._text)
        return found


def waiting(port: int, table: Path = _TABLE) -> int:
    """Return how many connections to this port of ours wait for the program to read or accept."""
    found = 0
    for line in table.read_text().splitlines()[1:]:
        _, local, _, state, queues, *_ = line.split()
        unread = int(queues.partition(":")[2], 16)
        if int(local.rpartition(":")[2], 16) == port and unread:
            # Of the socket that listens it is the number of those that nobody has accepted.
            found += unread if state == _LISTEN else state == _ESTABLISHED
    return found


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _rest(file: Path, start: int) -> bytes:
    if not file.exists():
        return b""
    with file.open("rb") as log:
        log.seek(start)
        return log.read()
