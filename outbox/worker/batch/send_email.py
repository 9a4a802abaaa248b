"""Sends one email over one connection, and checks at the last moment whether it may leave."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from ...domain.delivery.redirect import redirect, restore
from ...domain.delivery.transaction import Envelope, Transaction, Verdict
from ...smtp.connection import Connection
from ...smtp.no_reply_yet import NoReplyYet
from ...store.encryption.cipher import MissingKey
from ...store.records import Batch, ClaimedEmail
from ..log_events import log_missing_key
from ..process.runtime import Runtime
from .content_reader import ContentReader


class EmailSender:
    """Hands the emails of one batch to a connection, while the lease holds."""

    def __init__(
        self, runtime: Runtime, batch: Batch, *, holds: Callable[[], bool], began: float
    ) -> None:
        """`holds` returns whether the lease holds; the batch `began` at this time on our clock."""
        self.holds = holds
        self._began = began
        self._clock = runtime.clock
        self._redirect_to = runtime.settings.redirect_to
        settings = runtime.settings
        self._contents = ContentReader(
            runtime.database,
            settings.window_bytes,
            clock=runtime.clock,
            holds=holds,
            term=settings.lease,
        )
        self._contents.prefetch(batch.emails)
        self._alarmed: set[str] = set()  # the encryption keys whose absence is logged
        self.touched: int | None = None  # the email that may have left, as far as is known

    def may_send(self, email: ClaimedEmail) -> bool:
        """Return whether the lease holds and the email has not expired."""
        return self.holds() and not self.has_expired(email)

    def has_expired(self, email: ClaimedEmail) -> bool:
        """Return whether the email's `expires_at` has passed, so that it may not be sent."""
        return email.expires_in is not None and self._clock() - self._began >= email.expires_in

    def send(
        self,
        email: ClaimedEmail,
        connection: Connection,
        following: ClaimedEmail | None,
        at_server: AbstractContextManager[None],
    ) -> Transaction | None:
        """Send one email over this connection; return None where what is stored is damaged.

        `following` is the next email. Its envelope may leave right behind this content. What the
        server has to do is done in the context `at_server`. Raises MissingKey, and NoReplyYet as
        `Connection.send` does.
        """
        self.touched = None
        content = self._content(email)
        if content is None:
            return None

        # This runs twice for every email, so expiry is checked only for an email that expires.
        may_send = self.holds if email.expires_in is None else lambda: self.may_send(email)

        def may_leave() -> bool:
            if not may_send():
                return False
            self.touched = email.id
            return True

        def refused() -> None:
            self.touched = None

        envelope, added = self._addressed(email)
        ahead = self._addressed(following)[0] if following else None
        octets = added + content if added else content
        with at_server:
            try:
                result = connection.send(envelope, octets, may_leave, ahead, refused)
            except NoReplyYet as later:
                back = later.then(lambda it: restore(it, email.envelope)) if added else later
                raise back from None
            is_lost = result.verdict is Verdict.UNSENT and not result.refused_early(email.doubtful)
            if is_lost and self.holds():
                # A new session tells an outage, which charges nobody, from a dropped email.
                result = connection.connect() or result
        return restore(result, email.envelope) if added else result

    def _content(self, email: ClaimedEmail) -> bytes | None:
        if email.lacks_recipients:
            return None
        try:
            return self._contents.body(email)
        except MissingKey as lacking:
            if lacking.key_id not in self._alarmed:  # a line for each batch, not for each email
                self._alarmed.add(lacking.key_id)
                log_missing_key(lacking.key_id, email.id)
            raise

    def _addressed(self, email: ClaimedEmail) -> tuple[Envelope, bytes]:
        """Return the envelope to send, and the header lines that redirection adds."""
        if not self._redirect_to:
            return email.envelope, b""
        envelope, added = redirect(email.envelope, self._redirect_to)
        return replace(envelope, size=email.size + len(added)), added
