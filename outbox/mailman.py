"""Flask-Mailman's backend over the outbox: `MAIL_BACKEND = "outbox.mailman"`."""

from .flask_ext.dropin.mailman_backend import EmailBackend

__all__ = ["EmailBackend"]
