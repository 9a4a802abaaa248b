"""Receivers that note what the signals tell, connected for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from blinker import NamedSignal
from flask import Flask

from outbox import Status, email_failed, email_sent, email_unknown

SIGNALS = {
    Status.SENT: email_sent,
    Status.FAILED: email_failed,
    Status.UNKNOWN: email_unknown,
}

Told = tuple[Status, tuple[int, ...]]


@dataclass(kw_only=True)
class Heard:
    """What was told since the last look, and who has told it."""

    calls: list[Told] = field(default_factory=list)
    senders: set[Flask] = field(default_factory=set)

    def new(self) -> list[Told]:
        """Return what was told since the last look."""
        found, self.calls = self.calls, []
        return found

    def note(self, status: Status, sender: Flask, ids: tuple[int, ...]) -> None:
        self.senders.add(sender)
        self.calls.append((status, ids))


@contextmanager
def hearing() -> Iterator[Heard]:
    """Be connected to every signal."""
    heard = Heard()
    with ExitStack() as connected:
        for status, signal in SIGNALS.items():
            connected.enter_context(_connected(signal, status, heard))
        yield heard


@contextmanager
def _connected(signal: NamedSignal, status: Status, heard: Heard) -> Iterator[None]:
    def receiver(sender: Flask, **told: Any) -> None:
        heard.note(status, sender, **told)

    with signal.connected_to(receiver):
        yield
