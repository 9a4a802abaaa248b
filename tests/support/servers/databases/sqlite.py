"""SQLite: a file and no server."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from tests.support.servers.server import Fill


def new_database(directory: Path, fill: Fill | None = None) -> str:
    """Return the URL of a database file that does not exist yet, or is a copy of a filled one."""
    file = directory / f"{uuid4().hex}.sqlite3"
    if fill is not None:
        file.write_bytes(_filled(fill))
    return f"sqlite:///{file}"


@cache
def _filled(fill: Fill) -> bytes:
    with TemporaryDirectory(prefix="outbox-sqlite-") as directory:
        file = Path(directory, "template.sqlite3")
        fill(f"sqlite:///{file}")
        return file.read_bytes()
