"""A worker is stopped (SIGSTOP) for longer than its lease, and goes on (SIGCONT) when it is lost.

At every point but two kinds. In an open transaction it keeps its rows locked for as long as it is
stopped: others wait for it, and nothing is lost by that. So it is on SQLite where a row of a SELECT
has not been read yet.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kill.conftest import both_policies, everywhere, one_combination
from tests.kill.stage.judgement import Moment, outside
from tests.kill.stage.shop import BATCH
from tests.kill.stage.stage import Stage
from tests.kill.stage.tally import Tally

pytestmark = [pytest.mark.long, *everywhere]


@both_policies
def test_a_worker_that_slept_past_its_lease_at_any_point_sends_nothing_more(stage: Stage) -> None:
    recording = stage.record()
    tally = Tally(recording=recording, title=stage.title)
    for moment in stage.turn(outside(recording.points())):
        stage.begin()
        stopped = stage.stop(moment, tally)
        others = stage.nursery.run("worker", offset=stopped.offset)
        assert others.done
        before = stage.copies()
        assert stage.nursery.go_on(stopped, others.offset).done
        stage.ledger.wait_idle()
        copies, statuses = stage.copies(), stage.statuses()
        tally.expect(moment, "sent when it woke", copies - before, Counter())
        exposed = frozenset() if stage.hold else moment.exposed
        tally.enter("stops", moment, copies, statuses, may_repeat=exposed)
        tally.expect(moment, "miscounted", stage.miscounted(), {})
        foretold = recording.copies_after(moment, hold=stage.hold)
        tally.expect(moment, "copies", copies, foretold)
        ends = recording.standing_after(moment, hold=stage.hold)
        # What it was told before or after its sleep resolves the doubt of its own emails.
        ends |= {address: "sent" for email in _told(moment) for address in email}
        tally.expect(moment, "ended", statuses, ends)
    stage.say(tally.figures())
    tally.check()


@one_combination
def test_a_worker_that_wakes_before_its_emails_go_again_resolves_their_doubt(stage: Stage) -> None:
    recording = stage.record()
    tally = Tally(recording=recording, title=f"{stage.title}, awake before its emails go again")
    exposed = [moment for moment in outside(recording.points()) if moment.exposed]
    for moment in stage.turn(exposed):
        stage.begin()
        stopped = stage.stop(moment, tally)
        rescued = stage.nursery.run("rescuer", offset=stopped.offset)
        assert stage.nursery.go_on(stopped, rescued.offset).done
        stage.ledger.wait_idle()
        copies, statuses = stage.copies(), stage.statuses()
        tally.enter("stops", moment, copies, statuses)
        tally.expect(moment, "miscounted", stage.miscounted(), {})
        # Who has a copy gets no other, whatever becomes of the email's other recipients.
        foretold = recording.copies_after(moment, hold=False) - Counter(moment.exposed)
        tally.expect(moment, "copies", copies, foretold)
        ends = recording.standing_after(moment, hold=False)
        ends |= {a: recording.statuses[a] for email in _reached(moment) for a in email}
        tally.expect(moment, "ended", statuses, ends)
    stage.say(tally.figures())
    tally.check()


def _reached(moment: Moment) -> list[tuple[str, ...]]:
    """Return the emails of which the server had a copy that no record told of."""
    return [email for email in BATCH if moment.exposed & set(email)]


def _told(moment: Moment) -> list[tuple[str, ...]]:
    """Return those of them that leave nobody in doubt once the server's answer is written down."""
    return [
        email
        for email in _reached(moment)
        if all(a in moment.exposed for a in email if moment.in_doubt(a))
    ]
