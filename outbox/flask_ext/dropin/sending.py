"""What `connect()` returns in the place of Flask-Mail's connection: it enqueues each message."""

from __future__ import annotations

import time
from typing import Any

from flask import Flask, current_app
from flask_mail import BadHeaderError, Connection, Message, email_dispatched

from ...domain.config.enqueue_options import Options
from ...domain.errors import InvalidMessage
from ...domain.header.fields import parse_addresses
from ...domain.priority import Priority
from ..app.enqueue import Writing
from ..app.state import state_of
from ..messages.people import pair_of
from ..session.reading import holds_nothing


class OutboxConnection(Connection):
    """Flask-Mail's `Connection` over the outbox, as `mail.connect()` returns it.

    With `commits`, or with `OUTBOX_MAIL_AUTOCOMMIT`, an email is committed at once where its
    session holds nothing else.
    """

    def __init__(self, mail: Any, *, commits: bool = False) -> None:
        super().__init__(mail)
        self._commits = commits

    def __enter__(self) -> OutboxConnection:
        self.num_emails = 0
        return self

    def __exit__(self, *raised: object) -> None:
        """Do nothing: there is no connection to close, so no error can follow a success."""

    def send(self, message: Message, envelope_from: str | tuple[str, str] | None = None) -> None:
        """Enqueue the message in the current session, and send Flask-Mail's signal.

        The message's `msgId` is the Message-ID of its email from then on.

        With `MAIL_SUPPRESS_SEND`, which `TESTING` implies, only the signal is sent. Like Flask-Mail
        it raises BadHeaderError, and AssertionError without recipients or sender. It also raises
        InvalidMessage for a message that Flask-Mail would have sent broken.
        """
        _check(message)
        if message.date is None:
            message.date = time.time()  # receivers of the signal read the date
        if not self.mail.suppress:
            self._enqueue(message, envelope_from)
        app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
        email_dispatched.send(app, message=message)
        self.num_emails += 1
        if self.num_emails == self.mail.max_emails:
            self.num_emails = 0  # as in Flask-Mail, which would connect anew here

    def _enqueue(self, message: Message, envelope_from: str | tuple[str, str] | None) -> None:
        state = state_of()
        session = state.session()
        commits = self._commits or state.runtime.settings.mail_autocommit
        alone = commits and holds_nothing(session)
        options = Options.check(priority=Priority.NORMAL, envelope_from=_address(envelope_from))
        email = Writing(state=state, session=session, options=options).enqueue(message)
        # So that the app can know a reply or a bounce; receivers of the signal read it, too.
        message.msgId = email.message_id
        if alone:
            session.commit()


def _check(message: Message) -> None:
    """Refuse what Flask-Mail's own `send` refuses, with the same exceptions."""
    if not message.send_to:
        raise AssertionError("No recipients have been added")
    if not message.sender:
        raise AssertionError(
            "The message does not specify a sender and a default sender has not been configured"
        )
    if message.has_bad_headers():
        raise BadHeaderError


def _address(sender: str | tuple[str, str] | None) -> str | None:
    """Return the address of a sender as Flask-Mail takes it: a (name, address) pair, or text.

    Where it is empty, the message's own sender is the envelope's, as there.
    """
    if not sender:
        return None
    if isinstance(sender, tuple):
        return pair_of("envelope_from", sender)[1]
    if sender == "<>":
        return sender
    found = parse_addresses("envelope_from", sender)
    if len(found) > 1:
        raise InvalidMessage("envelope_from", "must be one address")
    return found[0].addr_spec if found else sender
