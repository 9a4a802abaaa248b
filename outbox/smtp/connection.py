"""A connection to one server that opens, is reused, and is renewed automatically."""

from __future__ import annotations

import os
import time
from math import inf
from typing import TYPE_CHECKING

from ..domain.delivery.session_refusal import refusal_in_a_row
from ..domain.delivery.transaction import Envelope, Transaction, Verdict
from .client import Client
from .envelope_session import MOST_ERRORS
from .no_reply_yet import NoReplyYet
from .session import TLSSession
from .session_limits import Taught
from .transaction_result import addressed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..domain.config.servers import ServerSettings


EHLO_SECONDS = 10.0
"""Seconds for which a server is assumed to offer no more than its EHLO said."""

NO_CURE = 60.0
"""Seconds for which refusals in a row are the emails' own, after a new session changed nothing."""


class Connection:
    """Sends emails over one connection at a time, for one thread. Network errors become verdicts.

    A connection lives for `connection_emails` emails or `connection_seconds`, or for as many emails
    as the server takes over a session. It belongs to the process that opened it: after a fork the
    child opens its own.
    """

    def __init__(
        self,
        server: ServerSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        taught: Taught | None = None,
    ) -> None:
        """`taught` is shared by the connections of a process to the same server."""
        self._server = server
        self._clock = clock
        self._taught = taught or Taught()
        self._client: Client | None = None
        self._process = os.getpid()
        self._opened = 0.0
        self._emails = 0
        self._most: float = server.connection_emails  # emails over this session
        self._lesson: float = inf  # what a spent session took, until a new one takes the email
        self._was_used = False  # an email went over it, or it has been idle
        self._refusal: str | None = None  # what the last email met over this session
        self._is_repeated = False  # the email before it met the same
        self._cures_from = 0.0  # on our clock: earlier no new session is tried as a cure
        self._progress: Callable[[], object] = lambda: None
        self._goes_on: Callable[[], bool] = lambda: True
        self._stays: Callable[[], bool] = lambda: True

    def report(
        self,
        progress: Callable[[], object],
        goes_on: Callable[[], bool],
        stays: Callable[[], bool] = lambda: True,
    ) -> None:
        """Have `progress` called at each reply and each block of content, from now on.

        `goes_on` is called every few seconds while an email's command gets no whole reply, and
        `stays` while its content gets none. False ends the wait.
        """
        self._progress, self._goes_on, self._stays = progress, goes_on, stays
        if self._client is not None:
            self._report_to(self._client)

    def _report_to(self, client: Client) -> None:
        client.progress, client.goes_on, client.stays = self._progress, self._goes_on, self._stays

    @property
    def has_session(self) -> bool:
        """Whether a session is open, as far as we know. Another thread may ask."""
        client = self._client
        return client is not None and client.ready and self._process == os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether a session is open, as far as we know, that this process may still use.

        It may not if the server is about to be slow over it because of its refusals.
        """
        return (
            self._client is not None
            and self._client.ready
            and self._process == os.getpid()
            and self._emails < self._most
            and self._age() < self._server.connection_seconds
            and (self._client.errors < MOST_ERRORS or self._client.announced is not None)
        )

    def connect(self, *, anew: bool = False) -> Transaction | None:
        """Make sure that a session is open, or return a HALT transaction that says why it is not.

        A session that was kept may be dead unnoticed: `anew` asks for a new one.
        """
        if anew:
            self.close()
        elif self._reusable() is not None:
            return None
        opened = self._open()
        return opened if isinstance(opened, Transaction) else None

    def send(
        self,
        envelope: Envelope,
        content: bytes,
        fence: Callable[[], bool],
        following: Envelope | None = None,
        refused: Callable[[], object] = lambda: None,
    ) -> Transaction:
        """Send one email as `Client.transact` does; open a connection first where none is open.

        A server may close an idle connection at any time (RFC 5321 §3.8). Where a kept one turns
        out to be closed before MAIL was answered, the email goes once over a new one. The same is
        done where an older connection lacks what the email needs: the server may offer it by now.
        It is done where the server says that it refuses only the session, and where the email meets
        the same refusal as the one before it. That stands where no new session can be had: the next
        email then opens one in its own turn. A refusal takes nothing, so nothing goes twice.
        `refused` is called as soon as that is known: an error that comes later leaves no doubt.

        Raises NoReplyYet as `Client.transact` does. The next email then goes over a new connection.
        """
        client, tried = self._reusable(envelope), None
        self._lesson = inf
        known: Transaction | None = None  # the email's own refusal, unless a new session cures it
        while True:
            is_kept = client is not None
            if client is None:
                opened = self._open()
                if isinstance(opened, Transaction):
                    return known or addressed(opened, envelope)
                client = opened
            self._was_used = self._emails > 0 or self._was_used or client.has_rested
            self._emails += 1
            has_more = self._emails < self._most and client.errors < MOST_ERRORS
            ahead = following if has_more else None
            try:
                result = client.transact(envelope, content, fence, ahead)
            except NoReplyYet:
                self._client = None  # whoever waits for the reply has it now
                raise
            if result.verdict is Verdict.SENT:
                self._refusal = None
                if self._lesson < inf:
                    self._taught.note(int(self._lesson), self._clock())
                return result
            self._learn(client, result, tried)
            is_outdated = client.stale and self._may_be_outdated(result)
            goes_again = is_kept and (is_outdated or self._is_repeated)
            if goes_again or client.is_spent:
                refused()
                self.close()
            if not goes_again:
                return result
            client, tried = None, self._refusal
            known = None if is_outdated else result

    def _learn(self, client: Client, result: Transaction, tried: str | None) -> None:
        """Note what a result says of the session. `tried` is what a new one was to cure, or None.

        A refusal that two emails in a row met over this session may be the session's. Where it was
        not, no new session is tried for the next `NO_CURE` seconds. What a spent session took is a
        lesson only if a new one takes the email: else the email itself may be refused so.
        """
        self._lesson = self._emails - 1 if client.is_spent and self._emails > 1 else inf
        before, self._refusal = self._refusal, refusal_in_a_row(result)
        if self._refusal is None:
            self._is_repeated = False
            return
        if self._refusal == tried:
            self._cures_from = self._clock() + NO_CURE
        self._is_repeated = self._refusal == before and self._clock() >= self._cures_from

    def _may_be_outdated(self, result: Transaction) -> bool:
        """Whether the server may by now take what this connection did not."""
        if result.verdict is Verdict.LACKING:
            return self._age() > EHLO_SECONDS
        return self._was_used

    def _age(self) -> float:
        return self._clock() - self._opened

    def rest(self) -> None:
        """Note that no email follows for now; close the connection if an email is announced on it.

        Its server would wait for a content that does not come. An idle connection is kept.
        """
        self._was_used = True
        if self._client is not None and self._client.announced is not None:
            self.close()

    def close(self) -> None:
        """Send QUIT and close soon; never raises. A connection from before a fork gets no QUIT."""
        client, self._client = self._client, None
        if client is None:
            return
        if self._process == os.getpid():
            client.farewell()
        else:
            # QUIT over the parent's socket would end the parent's session.
            client.close()

    def _reusable(self, envelope: Envelope | None = None) -> Client | None:
        """Return the open client if this process may still use it; close any other one.

        A session is closed, too, if a new one would take more of an envelope's recipients.
        """
        client = self._client
        if client is None or not self.is_open or (client.announced is None and client.was_left()):
            self.close()
            return None
        if envelope is None or client.limits is None or client.has_room(envelope):
            return client
        self.close()
        return None

    def _open(self) -> Client | Transaction:
        """Open a new session and return its client, or return why there is none."""
        kind = _TLSClient if self._server.security == "tls" else Client
        client = kind(self._server, clock=self._clock)
        self._report_to(client)
        halt = client.open()
        if halt is not None:
            return halt
        self._client, self._process = client, os.getpid()
        self._opened, self._emails, self._was_used = self._clock(), 0, False
        self._refusal = None
        offered = client.limits.emails if client.limits is not None else inf
        taught = self._taught.emails(self._opened)
        self._most = min(self._server.connection_emails, offered, taught, self._lesson)
        return client


class _TLSClient(Client, TLSSession):
    """A client with TLS from the first octet on."""
