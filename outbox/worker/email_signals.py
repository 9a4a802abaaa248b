"""Blinker signals: emails that were sent, have failed, or may have gone out.

Each is sent after the transaction that recorded it has committed, in the thread that ran it. The
sender is the Flask app. Receivers are called as `receiver(app, ids=(17, 18))`: once for a window of
emails and a status, with the ids of the rows that changed. In a worker they run outside a request,
and in no app context but the task's own. So a receiver that needs its app's database begins with
`with app.app_context():`. Keep receivers short: the batch waits for them. The window that was
opened meanwhile is in doubt if the worker is killed.

A signal comes at most once. It does not come where a worker is killed between the commit and the
signal, or where the connection is lost during the commit. Only the table is the truth. Several
signals may tell of one email in its life: that it failed and, after a retry, that it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from blinker import NamedSignal, Namespace
from celery.exceptions import SoftTimeLimitExceeded
from flask import Flask

from ..domain.delivery.status import Status
from ..store.connection.endings import TOLD, Ending, by_status
from ..store.harmless_log import harmless_log
from .log_events import LOGGED, log_endings

_signals = Namespace()

email_sent = _signals.signal("email-sent", "A server took these emails, for one recipient at least")
email_failed = _signals.signal("email-failed", "No recipient was accepted; these are not resent")
email_unknown = _signals.signal("email-unknown", "These may have gone out: a person decides")

_BY_STATUS: dict[Status, NamedSignal] = {
    Status.SENT: email_sent,
    Status.FAILED: email_failed,
    Status.UNKNOWN: email_unknown,
}


class Receivers:
    """The audience of an app's database: the log, and the receivers of the app's signals."""

    def __init__(self, app: Flask) -> None:
        self._app = app

    @property
    def wants(self) -> Collection[Status]:
        """The statuses that are logged, and `sent` if its signal has a receiver."""
        return TOLD if email_sent.receivers else LOGGED

    def tell(self, endings: Sequence[Ending]) -> None:
        """Log, and call the receivers. An error in one of them is logged, and changes nothing."""
        log_endings(endings)
        for status, ids in by_status(endings).items():
            signal = _BY_STATUS[status]
            if signal.is_muted:
                continue
            for receiver in list(signal.receivers_for(self._app)):
                self._call(signal, receiver, tuple(ids))

    def _call(
        self, signal: NamedSignal, receiver: Callable[..., Any], ids: tuple[int, ...]
    ) -> None:
        try:
            self._app.ensure_sync(receiver)(self._app, ids=ids)
        except SoftTimeLimitExceeded:  # the task's, and not the receiver's own
            raise
        except Exception as error:  # noqa: BLE001  (its text may name an address)
            name = getattr(receiver, "__qualname__", type(receiver).__name__)
            text = "outbox: the receiver %s of %s failed (%s)"
            harmless_log.error(text, name, signal.name, type(error).__name__)
