"""A peer that fails costs its own rows, and nobody else's."""

from __future__ import annotations

import sys
import time

import pytest

from benchmarks import measure
from benchmarks.bench import Bench, PeerFailed
from benchmarks.peers.process import result_of


def test_a_peer_that_fails_has_no_series_and_no_further_turn() -> None:
    turns = []

    def broken() -> float:
        turns.append(1)
        raise PeerFailed("it ended")

    with Bench(rounds=3, scale=1) as bench:
        rates = bench.rates({"ours": lambda: 7.0, "peer": broken})
    assert {name: series.values for name, series in rates.items()} == {"ours": (7.0, 7.0, 7.0)}
    assert len(turns) == 1
    assert bench.remarks == ["peer failed, and its rows are missing: it ended"]


def test_another_fault_fails_the_scenario() -> None:
    with Bench(rounds=1, scale=1) as bench, pytest.raises(ZeroDivisionError):
        bench.rates({"ours": lambda: 1 / 0})


def test_a_command_that_fails_is_a_peer_that_fails() -> None:
    with pytest.raises(PeerFailed, match="exited with 3"):
        result_of([sys.executable, "-c", "raise SystemExit(3)"], {})


class Silent:
    """A server that nobody sends to."""

    def accepted(self) -> int:
        return 5


def test_who_waits_for_a_peer_that_has_ended_gives_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_ENDED", 0.0)
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="5 of 6 emails"):
        measure.reached(Silent(), 6, alive=lambda: False)  # type: ignore[arg-type]
    assert time.monotonic() - begun < measure.STALL
