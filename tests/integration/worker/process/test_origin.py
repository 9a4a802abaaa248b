"""A task of another outbox is told of, at most once a minute, and no other is suspected."""

from __future__ import annotations

import pytest

from outbox.worker.origin import EVERY, tell_if_foreign
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.one_database("sqlite")


def test_a_task_of_another_outbox_is_told_of_at_most_once_a_minute(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, now = shop.runtime, 1000.0
    runtime.clock = lambda: now
    tell_if_foreign(runtime, "theirs")
    assert not caplog.records, "its own id is not known yet"
    runtime.instance.refusal()  # which notes an id in the tables
    runtime.instance.refusal(seen="an id that a sweep has read")
    for origin in (None, "", runtime.instance.id):
        tell_if_foreign(runtime, origin)
    assert not caplog.records
    for moment in (1000.0, 1000.0 + EVERY / 2, 1001.0 + EVERY):
        now = moment
        tell_if_foreign(runtime, "theirs")
    assert [one.levelname for one in caplog.records] == ["WARNING"] * 2
    assert "theirs" not in caplog.text
