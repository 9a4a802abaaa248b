"""Keeps the outbox's entry in `app.extensions["mail"]`, whatever else is put there."""

from __future__ import annotations

import logging

from flask import Flask, appcontext_pushed
from flask_mail import Mail, _Mail

from ...domain.errors import ConfigurationError
from .sending import OutboxConnection

_log = logging.getLogger("outbox")


class DirectSending(ConfigurationError, AttributeError):
    """Raised where a `flask_mail.Mail` beside the outbox is about to send inside the request."""


class MailEntry(_Mail):
    """The outbox's version of what Flask-Mail keeps in `app.extensions["mail"]`.

    Other extensions, such as Flask-Security, send through it. They do not commit afterwards. So
    their email is committed at once where its session holds nothing else.
    """

    def __init__(self, app: Flask, given: _Mail) -> None:
        self.__dict__.update(vars(given))  # its current values: an app may have changed them
        self._app = app
        self._suppress: bool | None = None
        if bool(given.suppress) != self.suppress:
            self._suppress = bool(given.suppress)

    def connect(self) -> OutboxConnection:
        """Return a context manager whose `send` enqueues."""
        return OutboxConnection(self, commits=True)

    @property
    def suppress(self) -> bool:
        """Whether nothing is to be sent: the value that was set here, or else the app's config."""
        if self._suppress is not None:
            return self._suppress
        return bool(self._app.config.get("MAIL_SUPPRESS_SEND", self._app.testing))

    @suppress.setter
    def suppress(self, value: bool) -> None:
        self._suppress = bool(value)

    @property
    def server(self) -> str:  # type: ignore[override]
        """Raise DirectSending: Flask-Mail reads it only when it is about to speak SMTP."""
        raise DirectSending(
            "flask_mail.Mail would speak SMTP inside the request, before any commit:"
            " put outbox.OutboxMail in its place"
        )


def take(app: Flask, given: _Mail | None = None) -> MailEntry:
    """Replace Flask-Mail's entry with ours, now and whenever another one is found later.

    Our entry takes its values from `given`, else from the entry that is there, else from the app's
    config. Raises ConfigurationError where the entry belongs to an extension other than Flask-Mail.
    """
    if stranger := stranger_of(app):
        raise ConfigurationError(stranger)
    found: _Mail | None = app.extensions.get("mail")
    if isinstance(found, MailEntry) and given is None:
        return found
    if found is not None and not isinstance(found, MailEntry):
        _log.warning(
            'outbox: the app has a flask_mail.Mail, too: app.extensions["mail"] is the outbox\'s'
            " now, and Mail's own send() is refused: put OutboxMail in its place"
        )
    entry = MailEntry(app, given or found or Mail().init_mail(app.config, app.debug, app.testing))
    app.extensions["mail"] = entry
    appcontext_pushed.connect(_keep, app)
    return entry


def is_suppressed(app: Flask) -> bool:
    """Return whether nothing is to be sent: `MAIL_SUPPRESS_SEND`, or `TESTING` without it."""
    found = app.extensions.get("mail")
    if isinstance(found, _Mail):
        return bool(found.suppress)
    return bool(app.config.get("MAIL_SUPPRESS_SEND", app.testing))


def stranger_of(app: Flask) -> str | None:
    """Return an error text for an entry that is neither Flask-Mail's nor ours, or None."""
    found = app.extensions.get("mail")
    if found is None or isinstance(found, _Mail):
        return None
    kind = f"{type(found).__module__}.{type(found).__qualname__}"
    return (
        f'app.extensions["mail"] holds a {kind}: the outbox can replace only Flask-Mail there,'
        " and messages that other extensions send would bypass it"
    )


_told: set[int] = set()


def _keep(app: Flask, **_: object) -> None:
    """Put our entry back if a `Mail` that was made later has replaced it.

    An error raised here would leave the context pushed. So an entry of another extension is
    reported by the log, and by `flask outbox check`.
    """
    found = app.extensions.get("mail")
    if isinstance(found, MailEntry):
        return
    stranger = stranger_of(app)
    if stranger is None:
        take(app)
    elif id(found) not in _told:
        _told.add(id(found))
        _log.error("outbox: %s", stranger)
