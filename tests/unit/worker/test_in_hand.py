"""A batch is in the hands of one task of its process."""

from __future__ import annotations

from uuid import uuid4

from outbox.worker.leases.in_hand import taken


def test_a_second_task_does_not_get_a_batch_before_the_first_lets_it_go() -> None:
    token = uuid4()
    with taken(token) as first, taken(token) as second, taken(uuid4()) as other:
        assert (first, second, other) == (True, False, True)
    with taken(token) as third:
        assert third
