"""The drop-in for `flask_mail.Mail`: `mail.send(msg)` enqueues in the current session."""

from __future__ import annotations

from flask import Flask, current_app
from flask_mail import Connection, Mail

from .entry import MailEntry
from .extensions import MissingEntry, take
from .sending import OutboxConnection


class OutboxMail(Mail):
    """Takes the place of `flask_mail.Mail(app)`; your `send()` calls stay as they are.

    The emails go out when your session commits. With `OUTBOX_MAIL_AUTOCOMMIT` an email is committed
    at once where its session holds nothing else. It needs `Outbox.init_app` on the same app.
    """

    def init_app(self, app: Flask) -> MailEntry:
        """Read the `MAIL_…` settings and put what `app.extensions["mail"].send` needs there.

        Raises ConfigurationError where the entry belongs to an extension other than Flask-Mail.
        """
        take(app)
        entry = MailEntry.of(app, self.init_mail(app.config, app.debug, app.testing))
        app.extensions["mail"] = entry
        return entry

    def connect(self) -> Connection:
        """Return a context manager whose `send` enqueues; it opens no connection."""
        app = getattr(self, "app", None) or current_app
        try:
            return OutboxConnection(app.extensions["mail"])
        except MissingEntry:
            raise
        except KeyError:
            raise RuntimeError(
                "The current application was not configured with Flask-Mail"
            ) from None
