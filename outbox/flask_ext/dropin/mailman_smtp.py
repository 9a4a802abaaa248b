"""Keeps Flask-Mailman's own SMTP backend from sending in an app with an outbox.

Such a backend can be made, opened and looked at as ever. Only a message is refused, before anything
of it is written. A backend that somebody makes by hand reads nothing of ours on its way to a
server. So two attributes of its class are replaced. In an app without an outbox they do the same
as before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NoReturn

from flask import current_app, has_app_context
from flask_mailman import EmailMessage
from flask_mailman.backends import smtp

from .direct_sending import DirectSending
from .mailman_backend import BACKEND

_MAIL = re.compile(rb"^[ \t]*MAIL[ \t]", re.IGNORECASE | re.MULTILINE)
"""The command that begins a message (RFC 5321 §4.1.1.2). What follows an AUTH has no blanks."""

_SendMessages = Callable[[Any, Iterable[EmailMessage] | None], int]


class OutboxState:
    """A base of the outbox's entry: a backend with such a state belongs to an outbox."""


def guard() -> None:
    """Refuse from now on what Flask-Mailman's SMTP backends send in an app with an outbox."""
    if not isinstance(vars(smtp.EmailBackend).get("connection"), _Connection):
        smtp.EmailBackend.connection = _Connection()
        smtp.EmailBackend.send_messages = _refusing(smtp.EmailBackend.send_messages)


class _Connection:
    """The attribute `connection` of a backend; also the backend's constructor sets it."""

    def __get__(self, backend: Any, _class: object = None) -> Any:
        if backend is None:
            return self
        found = vars(backend).get("connection")
        if hasattr(found, "sendmail") and _is_ours(backend):
            _without_mail(found)
        return found

    def __set__(self, backend: Any, value: object) -> None:
        # A class with a send_messages of its own may send by what it likes.
        if type(backend).send_messages is not smtp.EmailBackend.send_messages and _is_ours(backend):
            _refuse()
        vars(backend)["connection"] = value


def _without_mail(connection: Any) -> None:
    """Have a client of smtplib refuse the command that begins a message, by whichever method."""
    write = connection.send  # each of its methods writes by this one
    if hasattr(write, "refuses"):
        return

    def send(s: Any) -> None:
        if _MAIL.search(s.encode(errors="replace") if isinstance(s, str) else s):
            _refuse()
        write(s)

    send.refuses = True  # type: ignore[attr-defined]
    connection.send = send


def _refusing(send_messages: _SendMessages) -> _SendMessages:
    """Return a method that refuses before it connects: a server that is away would hide why."""

    @wraps(send_messages)
    def refusing(backend: Any, email_messages: Iterable[EmailMessage] | None) -> int:
        if not _is_ours(backend):
            return send_messages(backend, email_messages)
        if any(message.recipients() for message in email_messages or ()):
            _refuse()
        return 0

    return refusing


def _is_ours(backend: Any) -> bool:
    """Return whether the backend is one of an app with an outbox, or is used in one."""
    if isinstance(getattr(backend, "mailman", None), OutboxState):
        return True
    return has_app_context() and "outbox" in current_app.extensions


def _refuse() -> NoReturn:
    raise DirectSending(
        "Flask-Mailman's smtp backend would send inside the request, before any commit:"
        f' put "{BACKEND}" in its place'
    )
