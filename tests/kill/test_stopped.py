"""A worker is stopped (SIGSTOP) for longer than its lease, and goes on (SIGCONT) when it is lost.

At every point but two kinds. In an open transaction it keeps its rows locked for as long as it is
stopped: others wait for it, and nothing is lost by that. So it is on SQLite where a row of a SELECT
has not been read yet.
"""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.kill.conftest import both_policies
from tests.kill.faults import Fault
from tests.kill.judgement import Moment, Recording
from tests.kill.nursery import End
from tests.kill.shop import BATCH
from tests.kill.stage import Stage
from tests.kill.tally import Tally
from tests.kill.tracer import Kind

pytestmark = pytest.mark.timeout(600)


@both_policies
def test_a_worker_that_slept_past_its_lease_at_any_point_sends_nothing_more(stage: Stage) -> None:
    recording = stage.record()
    tally = Tally(recording=recording, title=stage.title)
    for moment in _points(recording):
        stopped = _stop(stage, tally, moment)
        others = stage.nursery.run("worker", offset=stopped.offset)
        assert others.done
        before = stage.copies()
        assert stage.nursery.go_on(stopped, others.offset).done
        stage.ledger.wait_idle()
        copies, statuses = stage.copies(), stage.statuses()
        tally.expect(moment, "sent when it woke", copies - before, Counter())
        exposed = frozenset() if stage.hold else moment.exposed
        tally.enter("stops", moment, copies, statuses, may_repeat=exposed)
        foretold = recording.copies_after(moment, hold=stage.hold)
        tally.expect(moment, "copies", copies, foretold)
        ends = recording.standing_after(moment, hold=stage.hold)
        # What it was told before or after its sleep resolves the doubt of its own mails.
        ends |= {mail[0]: "sent" for mail in _told(moment)}
        tally.expect(moment, "ended", statuses, ends)
    tally.close()


@both_policies
def test_a_worker_that_wakes_before_its_mails_go_again_resolves_their_doubt(stage: Stage) -> None:
    recording = stage.record()
    tally = Tally(recording=recording, title=stage.title)
    for moment in [moment for moment in _points(recording) if moment.exposed]:
        stopped = _stop(stage, tally, moment)
        rescued = stage.nursery.run("rescuer", offset=stopped.offset)
        assert stage.nursery.go_on(stopped, rescued.offset).done
        stage.ledger.wait_idle()
        copies, statuses = stage.copies(), stage.statuses()
        told = {address for mail in _told(moment) for address in mail}
        exposed = frozenset() if stage.hold else moment.exposed - told
        tally.enter("stops", moment, copies, statuses, may_repeat=exposed)
        foretold = recording.copies_after(moment, hold=stage.hold) - Counter(
            told if not stage.hold else ()
        )
        tally.expect(moment, "copies", copies, foretold)
    tally.close()


def _points(recording: Recording) -> list[Moment]:
    return [
        moment
        for moment in recording.points()
        if moment.kind is not Kind.COMMITTING and not moment.name.startswith("SELECT")
    ]


def _stop(stage: Stage, tally: Tally, moment: Moment) -> End:
    stage.begin()
    stopped = stage.nursery.run("worker trace", fault=Fault.STOP, at=moment.number)
    assert stopped.signal is signal.SIGSTOP
    assert not stopped.done
    tally.expect(moment, "stopped at", stopped.facts["point"], moment.what)
    return stopped


def _told(moment: Moment) -> list[tuple[str, ...]]:
    """Return the mails of one recipient whose copy the server had, and whose record was missing."""
    return [mail for mail in BATCH if len(mail) == 1 and mail[0] in moment.exposed]
