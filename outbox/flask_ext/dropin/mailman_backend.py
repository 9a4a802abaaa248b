"""The backend for Flask-Mailman: its messages are enqueued in the current session."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from flask import current_app
from flask_mailman import EmailMessage
from flask_mailman.backends import locmem
from flask_mailman.backends.base import BaseEmailBackend

from ...domain.config.enqueue_options import Options
from ...domain.errors import InvalidMessage
from ...domain.priority import Priority
from ..app.enqueue import Writing
from ..app.state import state_of
from ..messages.convert_mailman import composed
from ..session.reading import holds_nothing
from .entry import is_suppressed

BACKEND = "outbox.mailman"
"""The value of `MAIL_BACKEND` with which Flask-Mailman enqueues."""

_log = logging.getLogger("outbox")


class EmailBackend(BaseEmailBackend):  # type: ignore[misc]
    """Flask-Mailman's backend over the outbox: `MAIL_BACKEND = "outbox.mailman"`.

    The emails of one `send_messages` are committed at once where their session holds nothing else.
    Otherwise they go out when your session commits. Servers and credentials are the outbox's own:
    those that a caller names, such as `auth_user`, are not read.
    """

    def __init__(self, mailman: Any = None, fail_silently: bool = False, **_: Any) -> None:
        super().__init__(mailman=mailman, fail_silently=fail_silently)

    def send_messages(self, email_messages: Iterable[EmailMessage] | None) -> int:
        """Enqueue the messages in the current session, and return how many they are.

        A message without recipients is passed over. With `MAIL_SUPPRESS_SEND`, which `TESTING`
        implies, the messages are only put into `mail.outbox`, as by the backend locmem.

        Raises InvalidMessage, or with `fail_silently` logs it and goes on. Flask-Mailman's own
        errors and the database's are raised in both cases. Then nothing is committed here.
        """
        messages = list(email_messages or ())
        if is_suppressed(current_app):
            count: int = locmem.EmailBackend(mailman=self.mailman).send_messages(messages)
            return count
        state = state_of()
        session = state.session()
        alone = holds_nothing(session)
        options = Options.check(priority=Priority.NORMAL)
        writing = Writing(state=state, session=session, options=options)
        count = sum(self._enqueue(writing, message) for message in messages)
        if alone and count:
            session.commit()
        return count

    def _enqueue(self, writing: Writing, message: EmailMessage) -> bool:
        if not message.recipients():
            return False
        try:
            writing.enqueue(*composed(message, self.mailman.mail_options))
        except InvalidMessage as error:
            if not self.fail_silently:
                raise
            _log.warning("outbox: a message was not enqueued (fail_silently): %s", error)
            return False
        return True
