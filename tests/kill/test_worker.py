"""A worker is killed at every point that a batch comes to, and the others go on.

The points are recorded first: every commit (before it and after it), every statement that commits
by itself, every write to the SMTP server, every reply, every publish (before it and after it).
Then, for each of them, a process is killed there with SIGKILL and another one runs until nothing is
due. `OUTBOX_KILL_EVERY=10` tries every tenth.
"""

from __future__ import annotations

import signal

import pytest

from tests.kill.faults import Fault
from tests.kill.judgement import Recording
from tests.kill.shop import BATCH, WINDOW
from tests.kill.stage import Stage
from tests.kill.tally import Tally
from tests.kill.tracer import Kind

pytestmark = pytest.mark.timeout(600)


def test_wherever_a_worker_is_killed_no_mail_is_lost_and_none_repeated_but_in_doubt(
    stage: Stage,
) -> None:
    recording = stage.record()
    _passes_through_everything(recording)
    tally = Tally(recording=recording, title=stage.title)
    for moment in recording.points():
        stage.begin()
        end = stage.nursery.run("worker trace", fault=Fault.KILL, at=moment.number)
        assert end.signal is signal.SIGKILL
        assert not end.done
        stage.ledger.wait_idle()
        tally.expect(moment, "died at", end.facts["point"], moment.what)
        tally.expect(moment, "left", stage.shop.standing(), moment.standing)
        stage.go_on(end.offset)
        copies, statuses = stage.copies(), stage.statuses()
        exposed = frozenset() if stage.hold else moment.exposed
        tally.enter("kills", moment, copies, statuses, may_repeat=exposed)
        # Not only within the bound: to the last recipient what its point foretells.
        foretold = recording.copies_after(moment, hold=stage.hold)
        tally.expect(moment, "copies", copies, foretold)
        ends = recording.standing_after(moment, hold=stage.hold)
        tally.expect(moment, "ended", statuses, ends)
    tally.close()


def _passes_through_everything(recording: Recording) -> None:
    """A matrix of few points proves little: see that the batch comes through all it is for."""
    assert {moment.kind for moment in recording.moments} == set(Kind) - {Kind.STATEMENT}
    for address, (_, outcome) in recording.standing.items():
        assert outcome in ("sent", "failed")
        exposed = any(address in moment.exposed for moment in recording.moments)
        assert exposed == (outcome == "sent"), f"{address} is sent and was never in doubt"
    for moment in recording.moments:
        window = [mail for mail in BATCH if moment.standing[mail[0]][0] == "sending"]
        assert len(window) <= WINDOW
