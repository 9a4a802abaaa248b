"""Every error that a user of the library can meet. Its docstring says when it is raised."""

from __future__ import annotations


class OutboxError(Exception):
    """The base of all errors raised by the library."""


class InvalidMessage(OutboxError, ValueError):
    """A message or an argument that cannot be taken: `field` names it, `rule` the rule it breaks.

    Nothing was written, and the caller's transaction is usable. The value itself is not repeated,
    because addresses and subjects do not belong in logs.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule


class KeyConflict(OutboxError):
    """The idempotency key is taken by an email with other content; the transaction is usable."""


class KeyContention(OutboxError):
    """Another transaction holds the idempotency key, and this one cannot see the email of that key.

    It happens on a deadlock and under snapshot isolation. Nothing of this email was written: retry
    the whole transaction.
    """


class ConfigurationError(OutboxError):
    """A setting is unknown, has the wrong type or contradicts another one.

    It is raised too for a session, an engine or a driver with which an email could be lost, or
    could leave without its order. Nothing was written, and the caller's transaction is usable.
    """
