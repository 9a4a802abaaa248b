"""Tells a server's circuit breaker what a batch found, so that all workers know it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ....domain.delivery.blame import Common
from ....domain.delivery.breaker_timing import Cause
from ....domain.delivery.halt_reason import (
    CERTIFICATE_REMEDY,
    UNVERIFIED,
    halt_reason,
    is_unverified,
    may_pass,
)
from ....domain.delivery.refusal_fingerprint import in_ascii
from ....domain.delivery.refusal_streak import SystemicRefusal
from ....domain.delivery.transaction import Transaction
from ....store.connection.error_codes import describe, is_refusal
from ....store.connection.shared_rows import LockedElsewhere
from ....store.control import circuit_breaker
from ....store.control.blame import suspicion
from ....store.records import Breaker
from ....store.transitions.uncharge import review
from ...log_events import log_alert, log_breaker
from ...process.retry_writes import TOLD_EVERY, until_written
from ...process.runtime import Runtime

_log = logging.getLogger("outbox")


class ServerBreaker:
    """One server's breaker: its state at the batch's start, and what the batch writes to it.

    Each write is repeated until the database takes it. It is left out only where another
    transaction has locked the breaker's row for long, because that host may have vanished. Then
    this process claims nothing, for a while, for a server that it should halt. No email is charged
    for that.
    """

    def __init__(self, runtime: Runtime, server: str, found: Breaker | None) -> None:
        """`found` is the breaker's row at the batch's start; None: it was closed."""
        self._database = runtime.database
        self._settings = runtime.settings
        self._reach = runtime.reach
        self._seldom = runtime.seldom
        self._server = server
        opened = found if found is not None and found.is_open else None
        self.was_closed = found is None  # nothing spoke against the server
        self.was_open = opened is not None  # this batch is its probe
        self.failures = opened.failures if opened is not None else 0  # in a row, while it was open
        self.refusal = opened.refusal if opened is not None else None  # of every email
        # This batch is one more try after the server refused the credentials.
        self._logs_in_again = opened is not None and may_pass(opened.reason)
        self.is_tripped = False  # this batch opened it, or keeps it open

    def trip(
        self,
        cause: Cause,
        result: Transaction,
        *,
        suspect_id: int | None = None,
        anew: bool = False,
    ) -> None:
        """Open it for a result that shows that the server is to blame.

        With `anew` probes that failed in another way no longer count.
        """
        self._trip(
            why(result),
            cause=cause,
            reason=told(result),
            alert=result.alert,
            named=result.retry_after,
            may_pass=not self._logs_in_again and may_pass(told(result)),
            suspect_id=suspect_id,
            anew=anew,
        )

    def trip_for_refusals(self, alike: SystemicRefusal, *, suspect_id: int) -> None:
        """Open it, with an alert, because the server refuses every email alike."""
        self._trip(
            _REFUSES_ALL,
            cause=Cause.EMAILS,
            reason=alike.reason,
            alert=True,
            refusal=alike.refusal,
            suspect_id=suspect_id,
        )

    def clear(self, *, alert: bool) -> None:
        """Close it, or end the suspicion: the server opened a probe's session or judged an email.

        The alert of a suspicion ends only with `alert`.
        """
        if self.was_open:
            self._written(partial(circuit_breaker.close, self._database, self._server))
        elif not self.was_closed:
            self._written(partial(suspicion.clear, self._database, self._server, alert=alert))

    def keep_suspicion(self, email_id: int, reason: str) -> None:
        """Keep a suspicion that no email has cleared; after a probe, keep the breaker open."""
        if self.was_open:  # the probe told nothing new
            self._trip("", cause=Cause.EMAILS, reason=reason, suspect_id=email_id)
        else:
            self._suspect(email_id=email_id, reason=reason)

    def keep_silence(self, email_id: int) -> Breaker | None:
        """Keep a suspicion of silence to this email; return its row, None if open or locked."""
        found = list[Breaker | None]()
        silent = partial(suspicion.silent, self._database, self._server, email_id=email_id)
        self._written(lambda: found.append(silent(reason=suspicion.SILENCE)))
        return found[0] if found else None

    def alert(self, email_id: int, reason: str, *, seconds: float) -> None:
        """Keep a suspicion for so many seconds, with an alert: a person must see to it."""
        self._suspect(email_id=email_id, reason=reason, alert=True, seconds=seconds)
        log_alert(self._server, email_id)

    def review_refusals(self, refusal: str, *, outsider_tells: Callable[[Common], bool]) -> None:
        """Open it if the refusals in the log, of all batches, show that the server is to blame.

        Where it is open for this `refusal`, the emails get their attempts back.
        """
        look = partial(
            review,
            self._database,
            self._server,
            refusal,
            needed=self._settings.refused_alike,
            lifetime=self._settings.lifetime,
            outsider_tells=outsider_tells,
            opened=partial(self._tell, _REFUSES_ALL, alert=True),
        )
        self._written(look)

    def _trip(self, why: str, **known: object) -> None:
        """Open it; log `why`, in words without an address, if it was not open already.

        All batches on a server that fails come here at once, and one of them finds it closed.
        """
        self.is_tripped = True
        is_news = list[bool]()
        if not self._write(
            lambda *at, **k: is_news.append(circuit_breaker.trip(*at, **k)), **known
        ):
            self._reach.avoid(self._server)
        elif any(is_news):
            self._tell(why, alert=bool(known.get("alert")))

    def _tell(self, why: str, *, alert: bool) -> None:
        """Log why it opened: at once, and once a minute where probes close it again and again."""
        if self._seldom.is_due(f"halted: {self._server} {alert} {why}", TOLD_EVERY):
            log_breaker(self._server, why, alert=alert)

    def _suspect(self, **known: object) -> None:
        self._write(suspicion.suspect, **known)

    def _write(self, write: Callable[..., None], **known: object) -> bool:
        """Write what is known; where the database refuses the server's words, write it in ASCII.

        An outage must not charge the emails for the language in which the server told it.
        """
        tell = partial(write, self._database, self._server)
        try:
            return self._written(partial(tell, **known))
        except Exception as error:
            if not is_refusal(error):
                raise
            text = "outbox: the words of server %s were refused and are kept in ASCII (%s)"
            _log.warning(text, self._server, describe(error))
            words = {key: in_ascii(str(known[key])) for key in _WORDS if known.get(key)}
            return self._written(partial(tell, **known | words))

    def _written(self, write: Callable[[], object]) -> bool:
        """Repeat a write until the database takes it; return False where the row stays locked."""
        try:
            until_written(write)
        except LockedElsewhere:
            return False
        return True


_WORDS = ("reason", "refusal")
_REFUSES_ALL = "it refuses every email alike"


def why(result: Transaction) -> str:
    """Return in words for the log, which never quotes a server, what the server is blamed for."""
    if is_unverified(told(result)):
        return f"{result.phase}: {UNVERIFIED}: {CERTIFICATE_REMEDY}"
    return f"{result.phase} {result.reply.code or result.verdict}"


def told(result: Transaction) -> str:
    """Return the server's reply in words, as the reason of a suspicion or of an open breaker."""
    return halt_reason(result.phase, result.reply)
