"""Two workers side by side: one is stopped in the middle, and the other one does its part.

What stands in an open window is its worker's alone: a stale one writes nothing into it, and no
rescue takes it from one that lives.
"""

from __future__ import annotations

import pytest

from tests.kill.conftest import everywhere, one_combination
from tests.kill.stage.judgement import outside
from tests.kill.stage.shop import LEASE, Standing
from tests.kill.stage.stage import Stage
from tests.kill.stage.tally import Tally
from tests.kill.stage.tracer import Kind

pytestmark = [pytest.mark.long, *everywhere, one_combination]


def test_a_stale_worker_changes_nothing_of_an_email_that_another_one_is_sending(
    stage: Stage,
) -> None:
    """It was stopped with its window open; it wakes when its emails are in another's window."""
    recording = stage.record()
    tally = Tally(recording=recording, title=f"{stage.title}, two at the same email")
    stage.begin()
    round_ = stage.record_on(0.0, rounds=1).moments  # when it wakes, it is to make no clock leap
    # Of each window the last point at which a copy is out and not recorded.
    windows = {frozenset(_window(m.standing)): m for m in outside(round_) if m.exposed}
    for moment in windows.values():
        stage.begin()
        died = stage.kill(moment, tally)  # to those who go on it is as one that is stopped
        moments = stage.record_on(died).moments
        ours = _window(moment.standing)
        rescued = next(m.number for m in moments if not _window(m.standing) & ours)
        second = next(m for m in moments[rescued:] if _window(m.standing) & ours)
        stage.begin()
        stale = stage.stop(moment, tally, rounds=1)
        other = stage.stop(second, tally, stale.offset)
        before = stage.shop.standing()
        assert stage.nursery.go_on(stale, other.offset).done
        after = stage.shop.standing()
        for address in _window(before):
            tally.expect(moment, f"{address} became", after[address], before[address])
        assert stage.nursery.go_on(other, other.offset).done
        stage.go_on(other.offset)
        tally.enter("stops", moment, stage.copies(), stage.statuses(), may_repeat=moment.exposed)
        foretold = recording.copies_after(moment, hold=False)
        tally.expect(moment, "copies", stage.copies(), foretold)
    stage.say(tally.figures())
    tally.check()


def test_a_rescue_takes_no_mail_from_a_worker_that_lives(stage: Stage) -> None:
    """One lease has run out before its task came, the other one was started and holds."""
    recording = stage.record()
    tally = Tally(recording=recording, title=f"{stage.title}, a rescue beside it")
    published = [m for m in recording.moments if m.kind is Kind.PUBLISHED][1]
    stage.begin()
    late = stage.kill(published, tally) + LEASE + 1
    living = stage.record_on(late, beat=False, rounds=1).moments
    first = next(m for m in living if _window(m.standing))
    started = [m for m in living if m.number >= first.number]
    rest = next(m for m in started if not _window(m.standing) and m.kind is Kind.COMMITTED)
    for moment in stage.turn(outside([m for m in started if m.number < rest.number])):
        stage.begin()
        stage.kill(published, tally)
        worker = stage.stop(moment, tally, late, beat=False, rounds=1)
        other = stage.nursery.run("worker", offset=late, rounds=1)
        assert other.done
        tally.expect(moment, "leases rescued", stage.counters().get("leases_rescued"), 1)
        assert stage.nursery.go_on(worker, late).done
        stage.go_on(late)
        tally.enter("stops", moment, stage.copies(), stage.statuses())
        tally.expect(moment, "copies", stage.copies(), recording.copies)
        tally.expect(moment, "in doubt", stage.counters().get("unknown", 0), 0)
    stage.say(tally.figures())
    tally.check()


def _window(standing: Standing) -> set[str]:
    """Return the recipients of the emails that are being sent."""
    return {address for address, (mail, _) in standing.items() if mail == "sending"}
