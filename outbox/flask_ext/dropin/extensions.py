"""Keeps the mail entries of `app.extensions` the outbox's, whatever is put there and whenever."""

from __future__ import annotations

import sys
from typing import Any, Self

from flask import Flask
from flask_mail import Mail

from ...domain.errors import ConfigurationError
from .entry import MailEntry, adopt

_REMOVED = (
    'app.extensions["mail"] was removed after init_app. It is the outbox\'s, and a'
    " flask_mail.Message without a sender looks for MAIL_DEFAULT_SENDER there: leave it, or call"
    " OutboxMail().init_app(app)"
)


class MissingEntry(ConfigurationError, KeyError):
    """The outbox's entry of the mail is gone."""

    def __str__(self) -> str:
        """Return the text as it is: a KeyError would quote it."""
        return _REMOVED


class Extensions(dict[str, Any]):
    """An app's extensions, where the entries of Flask-Mail and Flask-Mailman are the outbox's.

    Both replace their entry whenever somebody makes their `Mail`, also within a request. Each way
    to put one there raises ConfigurationError for a "mail" of another extension.
    """

    def __init__(self, app: Flask) -> None:
        super().__init__()
        self._app = app

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, self._own(name, value))

    def __missing__(self, name: str) -> Any:
        if name == "mail":
            raise MissingEntry(_REMOVED)
        raise KeyError(name)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Put an entry there if there is none, and return what is there."""
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *given: Any, **named: Any) -> None:
        """Put each of these entries there."""
        for name, value in dict(*given, **named).items():
            self[name] = value

    def __ior__(self, given: Any) -> Self:  # type: ignore[override,misc]
        self.update(given)
        return self

    def _own(self, name: str, value: Any) -> Any:
        if name == "mail":
            return adopt(self._app, value)
        if name == "mailman" and "flask_mailman" in sys.modules:
            from . import mailman_entry  # it imports Flask-Mailman, which few apps have

            return mailman_entry.adopt(self._app, value)
        return value


def take(app: Flask) -> None:
    """Make the app's mail entries the outbox's, now and for all that comes.

    Raises ConfigurationError where the entry belongs to an extension other than Flask-Mail.
    """
    if not isinstance(app.extensions, Extensions):
        own, found = Extensions(app), app.extensions
        own.update(found)
        app.extensions = own
    if "mail" not in app.extensions:
        state = Mail().init_mail(app.config, app.debug, app.testing)
        app.extensions["mail"] = MailEntry.of(app, state)


def ways_round(app: Flask) -> list[str]:
    """Return a text for each way by which messages bypass the outbox."""
    if not isinstance(app.extensions, Extensions):
        return [
            "app.extensions was replaced after init_app: messages of Flask-Mail and Flask-Mailman"
            " bypass the outbox; add to it instead"
        ]
    if "mail" not in app.extensions:
        return [_REMOVED]
    if "mailman" not in app.extensions or "flask_mailman" not in sys.modules:
        return []
    from . import mailman_entry

    return mailman_entry.ways_round(app)
