"""The span of one window: it links to the requests that wrote the emails, and counts their ends.

It follows OpenTelemetry's conventions for a batch that is sent to an intermediary. It says nothing
of an email: neither an address nor a subject, nor a server's words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from ...domain.config.servers import ServerSettings
from ...domain.delivery.status import Status
from ...domain.delivery.transaction import Verdict
from ...store.records import ClaimedEmail, EmailResult
from ..tracing import Attributes, Span, harmless, is_on
from .batch_results import Results
from .server_choice import ServerChoice

_SENT, _FAILED, _UNKNOWN, _WAITING = "sent", "failed", "unknown", "waiting"


class WindowSpan(Protocol):
    """What a window tells its span."""

    def begin(self) -> None:
        """Start the span."""

    def end(self, error: BaseException | None = None) -> None:
        """End it, after the window has a result for each email."""


class _Nothing:
    """No span: nothing records one."""

    def begin(self) -> None:
        """Do nothing."""

    def end(self, error: BaseException | None = None) -> None:
        """Do nothing."""


_NOTHING = _Nothing()


def window_span(
    emails: Sequence[ClaimedEmail], choice: ServerChoice, results: Results
) -> WindowSpan:
    """Return the span of a window with these emails, which has not begun yet."""
    return _Recorded(emails, choice, results) if is_on() and emails else _NOTHING


class _Recorded:
    def __init__(
        self, emails: Sequence[ClaimedEmail], choice: ServerChoice, results: Results
    ) -> None:
        self._emails = emails
        self._choice = choice
        self._results = results
        self._span: Span | None = None
        self._is_counting = False
        self._ends: Counter[str] = Counter()
        self._verdicts: Counter[Verdict] = Counter()

    def begin(self) -> None:
        server = self._choice.server
        with harmless():
            self._span = Span.start(
                f"send {server.host}:{server.port}",
                {
                    "messaging.system": "smtp",
                    "messaging.operation.name": "send",
                    "messaging.operation.type": "send",
                    "messaging.batch.message_count": len(self._emails),
                    **_address(server),
                },
                (email.traceparent for email in self._emails),
            )
            self._is_counting = self._span is not None and self._span.is_recording
            self._results.on_result = self._count if self._is_counting else None

    def end(self, error: BaseException | None = None) -> None:
        self._results.on_result = None
        if self._span is None:
            return
        with harmless():
            told = (self._attributes(), self._error(error)) if self._is_counting else ({}, None)
            # An exporter may run at its end. The results are known, and do not wait for that.
            self._results.after_record.append(harmless()(self._span.leave(*told)))

    def _count(self, entry: EmailResult, by: int) -> None:
        if not entry.outcome.again:  # else another result of this email follows
            self._ends[_end(entry)] += by
            self._verdicts[entry.verdict] += by

    def _attributes(self) -> Attributes:
        ended = {kind: self._ends[kind] for kind in (_SENT, _FAILED, _UNKNOWN)}
        ended[_WAITING] = len(self._emails) - sum(ended.values())
        counts = {f"outbox.emails.{kind}": count for kind, count in ended.items()}
        return {**counts, **_address(self._choice.server)}  # the last one, if there were several

    def _error(self, error: BaseException | None) -> str | None:
        """Return what the window failed by as a whole; None if a server took an email of it."""
        if error is not None:
            return type(error).__name__
        if self._ends[_SENT]:
            return None
        judged = Counter({v: n for v, n in self._verdicts.items() if v is not Verdict.HALT})
        return str(max(judged, key=judged.__getitem__)) if +judged else str(Verdict.UNSENT)


def _end(entry: EmailResult) -> str:
    match entry.outcome.status:
        case Status.SENT:
            return _SENT
        case Status.FAILED:
            return _FAILED
        case Status.UNKNOWN:
            return _UNKNOWN
    return _UNKNOWN if entry.verdict is Verdict.UNKNOWN else _WAITING


def _address(server: ServerSettings) -> dict[str, str | int]:
    return {"server.address": server.host, "server.port": server.port, "outbox.server": server.name}
