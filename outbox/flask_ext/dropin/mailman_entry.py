"""The outbox's entry in `app.extensions["mailman"]`, by which Flask-Mailman and others send."""

from __future__ import annotations

import logging
from typing import Any, cast

from flask import Flask
from flask_mailman import _Mail
from flask_mailman.backends import console, dummy, file, locmem, smtp

from .mailman_backend import BACKEND, EmailBackend
from .mailman_smtp import OutboxState, guard

_HARMLESS = (console.EmailBackend, dummy.EmailBackend, file.EmailBackend, locmem.EmailBackend)
_log = logging.getLogger("outbox")


class MailmanEntry(OutboxState, _Mail):  # type: ignore[misc]
    """The outbox's version of what Flask-Mailman keeps in `app.extensions["mailman"]`.

    Its backend is the outbox's in the place of Flask-Mailman's own for SMTP. Every other backend
    stays as it was chosen.
    """

    @property
    def backend(self) -> Any:
        """The backend for whoever names none."""
        chosen = vars(self)["backend"]
        return BACKEND if _class_of(self, chosen) is smtp.EmailBackend else chosen

    @backend.setter
    def backend(self, value: Any) -> None:
        self.__dict__["backend"] = value  # as Flask-Mailman's own state keeps it


def adopt(_app: Flask, given: object) -> object:
    """Return the entry for what was put into `app.extensions["mailman"]`; it is the same object."""
    if not isinstance(given, _Mail) or isinstance(given, MailmanEntry):
        return given
    guard()
    chosen = vars(given).pop("backend")
    given.__class__ = MailmanEntry
    entry = cast(MailmanEntry, given)
    entry.backend = chosen
    if entry.backend != chosen:
        _log.warning(
            "outbox: Flask-Mailman's messages are the outbox's now, and its smtp backend refuses"
            ' them: set MAIL_BACKEND = "%s"',
            BACKEND,
        )
    return entry


def ways_round(app: Flask) -> list[str]:
    """Return a text for a backend that sends beside the outbox."""
    entry = app.extensions["mailman"]
    found = _class_of(entry, entry.backend) if isinstance(entry, MailmanEntry) else type(entry)
    if found is None or issubclass(found, (EmailBackend, *_HARMLESS)):
        return []
    return [
        f"Flask-Mailman sends by {found.__module__}.{found.__qualname__}, which bypasses the"
        f' outbox: set MAIL_BACKEND = "{BACKEND}"'
    ]


def _class_of(entry: MailmanEntry, backend: Any) -> Any:
    """Return a backend's class; None where it cannot be imported, which Flask-Mailman reports."""
    try:
        return entry.import_backend(backend)
    except (ImportError, AttributeError, ValueError):
        return None
