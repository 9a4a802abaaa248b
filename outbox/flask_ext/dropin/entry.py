"""`app.extensions["mail"]`: the outbox's, whoever put one there before or after."""

from __future__ import annotations

import logging

from flask import Flask, appcontext_pushed
from flask_mail import Mail, _Mail

from ...domain.errors import ConfigurationError
from .sending import OutboxConnection

_log = logging.getLogger("outbox")


class DirectSending(ConfigurationError, AttributeError):
    """A `flask_mail.Mail` beside the outbox was to speak SMTP inside the request."""


class MailEntry(_Mail):
    """What Flask-Mail keeps in `app.extensions["mail"]`, over the outbox.

    Other extensions send by it: Flask-Security does. They do not know of a commit to come, so a
    email of theirs is committed at once where its session holds nothing else.
    """

    def __init__(self, app: Flask, given: _Mail) -> None:
        self.__dict__.update(vars(given))  # as it is now: an app may have changed it
        self._app = app
        self._suppress: bool | None = None
        if bool(given.suppress) != self.suppress:
            self._suppress = bool(given.suppress)

    def connect(self) -> OutboxConnection:
        """Return a context manager whose `send` enqueues."""
        return OutboxConnection(self, commits=True)

    @property
    def suppress(self) -> bool:
        """Whether nothing is to be sent: as it was set here, or as the app is configured now."""
        if self._suppress is not None:
            return self._suppress
        return bool(self._app.config.get("MAIL_SUPPRESS_SEND", self._app.testing))

    @suppress.setter
    def suppress(self, value: bool) -> None:
        self._suppress = bool(value)

    @property
    def server(self) -> str:  # type: ignore[override]
        """Flask-Mail's own connection asks for it before it speaks SMTP: here it must not."""
        raise DirectSending(
            "flask_mail.Mail would speak SMTP inside the request, before any commit:"
            " put outbox.OutboxMail in its place"
        )


def take(app: Flask, given: _Mail | None = None) -> MailEntry:
    """Put our entry in the place of Flask-Mail's, now and whenever another is found there.

    `given` is what it shall say; without it, what an entry there says, or the app's config.
    Raises ConfigurationError where another extension than Flask-Mail has its own there.
    """
    if stranger := stranger_of(app):
        raise ConfigurationError(stranger)
    found: _Mail | None = app.extensions.get("mail")
    if isinstance(found, MailEntry) and given is None:
        return found
    if found is not None and not isinstance(found, MailEntry):
        _log.warning(
            'outbox: flask_mail.Mail is there too: app.extensions["mail"] is the outbox\'s now, and'
            " Mail's own send() is refused; put OutboxMail in its place"
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
    """Return what to say of an entry that is neither Flask-Mail's nor ours, or None."""
    found = app.extensions.get("mail")
    if found is None or isinstance(found, _Mail):
        return None
    kind = f"{type(found).__module__}.{type(found).__qualname__}"
    return (
        f'app.extensions["mail"] holds a {kind}: the outbox takes the place of Flask-Mail only,'
        " and what other extensions send would go round it"
    )


_told: set[int] = set()


def _keep(app: Flask, **_: object) -> None:
    """Look whether a `Mail` that was made later has put its own there.

    To raise here would leave the context pushed: of a stranger the log tells, and the doctor.
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
