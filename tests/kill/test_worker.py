"""A worker is killed at every point that a batch comes to, and the others go on.

The points are recorded first: every commit (before it and after it), every statement that commits
by itself, every write to the SMTP server, every reply, every publish (before it and after it).
Then, for each of them, a process is killed there with SIGKILL and another one runs until nothing is
due. Every other time that one sees the death, as on the same host. With the server that takes
PIPELINING and under `resend` the databases share the points, a third each, in three tests; in the
other combinations a third of the points. With `--whole` each tries all of them, with
`OUTBOX_KILL_EVERY=10` every tenth.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from outbox.domain.delivery.status import FINISHED
from tests.kill.conftest import both_policies, everywhere
from tests.kill.stage.judgement import Moment, Recording
from tests.kill.stage.shop import BATCH, REDACTED, WINDOW
from tests.kill.stage.stage import Stage
from tests.kill.stage.tally import Tally
from tests.kill.stage.tracer import Kind

pytestmark = everywhere


def test_wherever_a_worker_is_killed_no_email_is_lost_and_none_repeated_but_in_doubt(
    stage: Stage,
) -> None:
    recording = stage.record()
    tally = Tally(recording=recording, title=stage.title)
    for moment in stage.portion(stage.turn(recording.points())):
        stage.begin()
        stage.go_on(stage.kill(moment, tally), sees_deaths=moment.number % 2 == 0)
        _judge(stage, tally, moment, may_repeat=() if stage.hold else moment.exposed)
    stage.say(tally.figures())
    tally.check()
    _passes_through_everything(recording)


@pytest.mark.long
@both_policies
def test_wherever_the_worker_is_killed_that_rescues_what_another_left_nothing_is_lost(
    stage: Stage,
) -> None:
    first = stage.record()
    grave = [moment for moment in first.moments if "last@seven.example" in moment.exposed][-1]
    ignored = Tally(recording=first, title="")
    stage.begin()
    recording = stage.record_on(stage.kill(grave, ignored))
    tally = Tally(recording=recording, title=f"{stage.title}, the second to die")
    for moment in stage.turn(recording.points(Kind.COMMITTING, Kind.COMMITTED)):
        stage.begin()
        died = stage.kill(grave, tally)
        stage.go_on(stage.kill(moment, tally, died))
        twice = () if stage.hold else (*grave.exposed, *moment.exposed)
        _judge(stage, tally, moment, may_repeat=twice)
    stage.say(tally.figures())
    tally.check()
    assert any(moment.standing != grave.standing for moment in recording.moments)


def _judge(stage: Stage, tally: Tally, moment: Moment, *, may_repeat: Collection[str]) -> None:
    copies, statuses = stage.copies(), stage.statuses()
    tally.enter("kills", moment, copies, statuses, may_repeat=may_repeat)
    tally.expect(moment, "miscounted", stage.miscounted(), {})
    # Not only within the bound: to the last recipient what its point foretells.
    foretold = tally.recording.copies_after(moment, hold=stage.hold)
    tally.expect(moment, "copies", copies, foretold)
    ends = tally.recording.standing_after(moment, hold=stage.hold)
    tally.expect(moment, "ended", statuses, ends)
    bare = {address for address in REDACTED if statuses[address] in FINISHED}
    tally.expect(moment, "without a body", stage.bare(), bare)


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
