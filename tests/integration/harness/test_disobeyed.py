"""What does not end when it is asked to is killed, and somebody hears of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.servers import family, server
from tests.support.servers.server import Server

_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1); signal.pause()"


class Deaf(Server):
    """A program that passes over SIGTERM."""

    name: ClassVar[str] = "deaf"
    patience: ClassVar[float] = 2.0

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-u", "-c", _DEAF]

    def answers(self) -> bool:
        return "1" in self.printed()


class MayBeDeaf(Deaf):
    """The same where that is no failure."""

    must_obey: ClassVar[bool] = False


def test_a_server_that_does_not_end_fails_its_test() -> None:
    with pytest.raises(TimeoutError, match="deaf to end"), Deaf() as deaf:
        members = deaf.processes()
    assert not family.living(members)
    assert not deaf.directory.exists()


def test_what_may_be_killed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(server, "disobeyed", told)
    with MayBeDeaf() as deaf:
        members = deaf.processes()
    assert told == ["deaf did not end in 2 s, and was killed"]
    assert not family.living(members)
