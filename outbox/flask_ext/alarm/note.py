"""That somebody was told of a failure which the table could not keep: in memory, or in a file.

The table is the place where what was told is kept. A database that is away or read-only keeps
nothing. Without a note each watch would tell that again, and none would tell that it is over.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path
from weakref import WeakKeyDictionary

from flask import Flask

from ...domain.errors import InvalidMessage

_log = logging.getLogger("outbox")


_MODE = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
"""A note is an empty file that nobody may write: so it takes no room, which a full disk has not.
Any other file is somebody's own, and stays as it is; but an empty one becomes a note."""


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
            if _is_note(self.path):
                return False
            if self.path.exists():
                self.path.chmod(_MODE)
            else:  # of several processes on a host one makes it
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL, _MODE))
        except OSError as error:
            if isinstance(error, FileExistsError) and self.path.exists():
                return False  # another process was faster
            self._fail("written", error)
        return True

    def remove(self) -> bool:
        """Remove the note; return whether it was there."""
        if self.path is None:
            was_made, self._is_made = self._is_made, False
            return was_made
        try:
            if not _is_note(self.path):
                return False
            self.path.chmod(_MODE | stat.S_IWUSR)  # Windows would not remove it
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
        _log.error(text, self.path, done, error.strerror or type(error).__name__)


def _is_note(path: Path) -> bool:
    """Return whether this file is a note: False if there is none, or an empty one of a person.

    Raises OSError where it cannot be told, and where something else has this name.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    if found.st_size:
        raise OSError(errno.EINVAL, "it is a file of somebody else")
    return not found.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)


_notes: WeakKeyDictionary[Flask, Note] = WeakKeyDictionary()


def note_of(app: Flask) -> Note:
    """Return the app's note, where its last watch had it."""
    return _notes.setdefault(app, Note())


def keep_note(app: Flask, path: str | os.PathLike[str] | None) -> Note:
    """Return the app's note, and have it in this file; with None in this process's memory.

    Raises InvalidMessage if the path is empty, as a variable of cron is that nobody has set.
    """
    if path is not None and not os.fspath(path):
        raise InvalidMessage("note", "is empty: name a file")
    wanted = None if path is None else Path(path)
    if note_of(app).path != wanted:
        _notes[app] = Note(wanted)
    return _notes[app]
