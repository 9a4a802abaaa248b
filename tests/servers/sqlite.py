"""SQLite: a file and no server."""

from pathlib import Path
from uuid import uuid4


def new_database(directory: Path) -> str:
    """Return the URL of a database file that does not exist yet."""
    return f"sqlite:///{directory / uuid4().hex}.sqlite3"
