"""A sweep that keeps a small batch to send it owes another sweep to those who came meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.worker import tasks
from outbox.worker.sweep import sweep
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database


@pytest.mark.parametrize("is_asked", [True, False])
def test_who_comes_while_a_small_batch_is_found_has_a_sweep_follow(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    runtime, wakes = shop.runtime, list[float]()

    def meanwhile(*given: Any) -> int:
        claimed = sweep(*given)
        if is_asked:
            assert list(runtime.rounds) == [], "another thread's batch has ended"
        return claimed

    monkeypatch.setattr(tasks, "run_sweep", meanwhile)
    monkeypatch.setattr(runtime.nudge, "wake", lambda seconds=0.0: wakes.append(seconds))
    shop.enqueue()
    claimed, kept = tasks._sweep_and_publish(runtime, keeps=True)
    assert (claimed, kept is not None) == (1, True)
    assert wakes == [0.0] * is_asked
