"""The reply to a commit is lost: the write has landed, and the worker sees a broken connection.

Every transaction's commit is meant, and every statement that commits by itself. The worker lives on
and knows what it sent, so not even here does anybody get a second copy.
"""

from __future__ import annotations

import pytest

from tests.kill.conftest import both_policies, everywhere
from tests.kill.stage.faults import Fault
from tests.kill.stage.stage import Stage
from tests.kill.stage.tally import Tally
from tests.kill.stage.tracer import Kind

pytestmark = [pytest.mark.long, *everywhere]


@both_policies
def test_whichever_commit_has_its_reply_lost_no_email_is_lost_and_none_repeated(
    stage: Stage,
) -> None:
    recording = stage.record()
    tally = Tally(recording=recording, title=stage.title)
    for moment in stage.turn(recording.points(Kind.COMMITTED)):
        stage.begin()
        end = stage.nursery.run("worker trace", fault=Fault.LOSE, at=moment.number)
        assert end.done
        tally.expect(moment, "lost the reply to", end.facts["point"], moment.what)
        stage.ledger.wait_idle()
        copies, statuses = stage.copies(), stage.statuses()
        tally.enter("replies to commits lost", moment, copies, statuses)
        tally.expect(moment, "miscounted", stage.miscounted(), {})
        tally.expect(moment, "copies", copies, recording.copies)
        tally.expect(moment, "ended", statuses, recording.statuses)
        tally.expect(moment, "in doubt", stage.counters().get("unknown", 0), 0)
        tally.expect(moment, "stale", stage.counters().get("stale_tasks", 0), 0)
        tally.expect(moment, "crashes charged", stage.shop.crashes(), 0)
    stage.say(tally.figures())
    tally.check()
