"""The outbox's entry in `app.extensions["mail"]`, by which Flask-Mail and others send."""

from __future__ import annotations

import logging
from typing import cast

from flask import Flask
from flask_mail import _Mail

from ...domain.config.typed_values import as_truth
from ...domain.errors import ConfigurationError
from .direct_sending import DirectSending
from .sending import OutboxConnection

_log = logging.getLogger("outbox")


class MailEntry(_Mail):
    """The outbox's version of what Flask-Mail keeps in `app.extensions["mail"]`.

    Other extensions, such as Flask-Security, send through it. They do not commit afterwards. So
    their email is committed at once where its session holds nothing else.
    """

    _app: Flask
    _suppress: bool | None

    @staticmethod
    def of(app: Flask, state: _Mail) -> MailEntry:
        """Turn what Flask-Mail's `Mail` made into the outbox's entry; it stays the same object.

        So a connection that somebody makes of `mail.state` is the outbox's, too, or is refused.
        """
        wanted = _truth(vars(state).pop("suppress"))
        state.__class__ = MailEntry
        entry = cast(MailEntry, state)
        entry._app, entry._suppress = app, None
        if wanted != entry.suppress:
            entry._suppress = wanted
        return entry

    def connect(self) -> OutboxConnection:
        """Return a context manager whose `send` enqueues."""
        return OutboxConnection(self, commits=True)

    @property
    def suppress(self) -> bool:
        """Whether nothing is to be sent: the value that was set here, or else the app's config."""
        if self._suppress is not None:
            return self._suppress
        return _wanted(self._app)

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


def adopt(app: Flask, given: object) -> MailEntry:
    """Return the entry for what was put into `app.extensions["mail"]`.

    Raises ConfigurationError for what belongs to an extension other than Flask-Mail.
    """
    if isinstance(given, MailEntry):
        return given
    if not isinstance(given, _Mail):
        kind = f"{type(given).__module__}.{type(given).__qualname__}"
        raise ConfigurationError(
            f'app.extensions["mail"] would hold a {kind}: the outbox can replace only Flask-Mail'
            " there, and messages that other extensions send would bypass it"
        )
    _log.warning(
        'outbox: the app has a flask_mail.Mail, too: app.extensions["mail"] is the outbox\'s'
        " now, and Mail's own send() is refused: put OutboxMail in its place"
    )
    return MailEntry.of(app, given)


def is_suppressed(app: Flask) -> bool:
    """Return whether nothing is to be sent: `MAIL_SUPPRESS_SEND`, or `TESTING` without it."""
    found = app.extensions.get("mail")
    if isinstance(found, _Mail):
        return bool(found.suppress)
    return _wanted(app)


def _wanted(app: Flask) -> bool:
    return _truth(app.config.get("MAIL_SUPPRESS_SEND", app.testing))


def _truth(value: object) -> bool:
    """Return what a setting says; "false" from an environment is false, as in every setting."""
    found = as_truth(value)
    return bool(value) if found is None else found
