"""The web process is killed at every statement, commit and publish: an email has its order.

Also where the commit's reply is lost: then both are there, though the view saw an error.
"""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

import pytest

from tests.kill.conftest import everywhere, one_combination
from tests.kill.stage.faults import Fault
from tests.kill.stage.judgement import EVERY
from tests.kill.stage.roles import CUSTOMERS
from tests.kill.stage.stage import Stage
from tests.kill.stage.tracer import Kind

pytestmark = [pytest.mark.long, *everywhere, one_combination]


def test_wherever_the_web_process_is_killed_an_email_exists_if_and_only_if_its_order_does(
    stage: Stage,
) -> None:
    points = _record(stage)
    assert {point["kind"] for point in points} >= set(Kind) - {Kind.WRITTEN, Kind.READ}
    emails, tried = 0, stage.turn(list(enumerate(points))[::EVERY])
    for number, point in tried:
        stage.clear()
        end = stage.nursery.run("web trace", fault=Fault.KILL, at=number)
        assert end.signal is signal.SIGKILL
        assert not end.done
        assert end.facts["point"] == f"{point['kind']} {point['name']}"
        emails += _came_through(stage, end.offset, f"killed at {number}, {end.facts['point']}")
    stage.say(
        f"{stage.title}, web process: {len(points)} points; {len(tried)} kills; emails"
        f" without their order 0, orders without their emails 0, copies {emails}, second copies 0"
    )


def test_a_commit_whose_reply_is_lost_has_written_the_order_and_its_email(stage: Stage) -> None:
    points = _record(stage)
    commits = [number for number, point in enumerate(points) if point["kind"] == Kind.COMMITTED]
    assert len(commits) == len(CUSTOMERS)
    for number in commits:
        stage.clear()
        end = stage.nursery.run("web trace", fault=Fault.LOSE, at=number)
        assert end.done
        assert stage.orders() == set(CUSTOMERS)
        _came_through(stage, end.offset, f"lost the reply at {number}")
    lost = f"{len(commits)} replies to commits lost"
    stage.say(f"{stage.title}, web process: {lost}; emails lost 0, second copies 0")


def _record(stage: Stage) -> list[dict[str, Any]]:
    stage.clear()
    end = stage.nursery.run("web trace")
    assert end.done
    assert stage.orders() == set(CUSTOMERS)
    points: list[dict[str, Any]] = end.facts["points"]
    return points


def _came_through(stage: Stage, offset: float, where: str) -> int:
    """See that each order has its emails, each email its order, and that each is sent once."""
    recipients = {to for customer in stage.orders() for to in CUSTOMERS[customer]}
    assert set(stage.shop.standing()) == recipients, where
    stage.go_on(offset)
    assert stage.copies() == Counter(dict.fromkeys(recipients, 1)), where
    assert set(stage.statuses().values()) <= {"sent"}, where
    return len(recipients)
