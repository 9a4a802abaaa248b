"""A batch is in the hands of one task of its process."""

from __future__ import annotations

from uuid import uuid4

from outbox.worker.leases.in_hand import take_in_hand


def test_a_second_task_does_not_get_a_batch_before_the_first_lets_it_go() -> None:
    token = uuid4()
    with (
        take_in_hand(token) as first,
        take_in_hand(token) as second,
        take_in_hand(uuid4()) as other,
    ):
        assert (first, second, other) == (True, False, True)
    with take_in_hand(token) as third:
        assert third
