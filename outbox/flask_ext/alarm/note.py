"""That somebody was told of a failure which the table could not keep: in memory, or in a file.

The table is the place where what was told is kept. A database that is away or read-only keeps
nothing. Without a note each watch would tell that again, and none would tell that it is over.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from weakref import WeakKeyDictionary

from flask import Flask

_log = logging.getLogger("outbox")


class Note:
    """Whether such a failure was told. Without a path this process's memory keeps it."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._is_made = False

    def make(self) -> bool:
        """Make the note; return whether it was not there, or cannot be kept: then tell."""
        if self.path is None:
            was_made, self._is_made = self._is_made, True
            return not was_made
        try:
            self.path.open("x").close()  # of several processes on a host one makes it
        except FileExistsError:
            return False
        except OSError as error:
            self._fail("written", error)
        return True

    def remove(self) -> bool:
        """Remove the note; return whether it was there."""
        if self.path is None:
            was_made, self._is_made = self._is_made, False
            return was_made
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            self._fail("removed", error)
            return False
        return True

    @property
    def is_in_memory(self) -> bool:
        """Whether it is made, and ends with this process."""
        return self.path is None and self._is_made

    def _fail(self, done: str, error: OSError) -> None:
        text = "outbox: the note of watch, %s, cannot be %s (%s)"
        _log.error(text, self.path, done, type(error).__name__)


_notes: WeakKeyDictionary[Flask, Note] = WeakKeyDictionary()


def note_of(app: Flask) -> Note:
    """Return the app's note, where its last watch had it."""
    return _notes.setdefault(app, Note())


def keep_note(app: Flask, path: str | os.PathLike[str] | None) -> Note:
    """Return the app's note, and have it in this file; with None in this process's memory."""
    wanted = None if path is None else Path(path)
    if note_of(app).path != wanted:
        _notes[app] = Note(wanted)
    return _notes[app]
