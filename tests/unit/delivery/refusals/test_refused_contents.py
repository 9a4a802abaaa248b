"""A content that the server took before is not why it refuses it: its recipients count."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from outbox.domain.delivery.refusal_fingerprint import refusal_of
from outbox.domain.delivery.refusal_streak import RefusalStreak, SystemicRefusal
from outbox.domain.delivery.transaction import Phase, Reply, Transaction, Verdict
from tests.unit.delivery.refusals.test_refusal_streak import NEEDED, result, sent, traits

NEWS, ORDER = 1, 2
UNUSUAL = Reply(code=550, enhanced="5.4.6", text="We do not like what you do of late")


class Streak(RefusalStreak):
    """Is told results one by one, and remembers which contents it looked up in the log."""

    def __init__(self, *logged: int) -> None:
        super().__init__(NEEDED, were_taken=self._look)
        self.looks: list[set[int]] = []
        self._logged = set(logged)
        self._emails_so_far = 0

    def _look(self, refusal: str, contents: Collection[int]) -> Collection[int]:
        assert refusal == self.refusal
        self.looks.append(set(contents))
        return self._logged

    def told(self, *results: Transaction, content: int = NEWS) -> list[SystemicRefusal | None]:
        self._emails_so_far += len(results)
        start = self._emails_so_far - len(results)
        return [
            self.add(start + n, one, content=content, traits=traits)
            for n, one in enumerate(results)
        ]


def refused(count: int, start: int = 0, *, phase: Phase = Phase.DOT) -> list[Transaction]:
    return [
        result(f"r{n}@x{n}.example", phase=phase, reply=UNUSUAL)
        for n in range(start, start + count)
    ]


def test_a_newsletter_that_was_taken_until_now_is_refused_for_the_servers_own_reason() -> None:
    streak = Streak()
    streak.told(*[sent()] * 30)
    *before, full = streak.told(*refused(NEEDED))
    assert before == [None] * (NEEDED - 1)
    assert full is not None
    assert full.emails == {30, 31, 32}
    assert streak.looks == [], "this batch saw it"


def test_what_a_calm_watch_saw_counts_too() -> None:
    streak = Streak()
    streak.note_taken(NEWS)
    assert streak.told(*refused(NEEDED))[-1] is not None


def test_the_log_is_asked_once_where_this_batch_has_seen_none_of_the_content() -> None:
    streak = Streak(NEWS)
    *before, full = streak.told(*refused(NEEDED))
    assert (before, streak.looks) == ([None] * (NEEDED - 1), [{NEWS}])
    assert full is not None


def test_a_content_that_was_never_taken_counts_once_and_is_looked_up_once() -> None:
    streak = Streak()
    assert streak.told(*refused(10)) == [None] * 10
    assert streak.looks == [{NEWS}]


@pytest.mark.parametrize(
    ("phase", "count"), [(Phase.DOT, NEEDED - 1), (Phase.RCPT, NEEDED - 1), (Phase.RCPT, NEEDED)]
)
def test_the_log_is_not_asked_where_it_cannot_decide(phase: Phase, count: int) -> None:
    streak = Streak()
    streak.told(*refused(count, phase=phase))
    assert streak.looks == []


def test_one_recipient_counts_once_whatever_was_taken() -> None:
    streak = Streak(NEWS)
    assert streak.told(*[refused(1)[0]] * 10) == [None] * 10


def test_of_two_contents_only_the_one_that_was_taken_counts_by_recipient() -> None:
    streak = Streak(NEWS)
    assert streak.told(*refused(10), content=ORDER) == [None] * 10
    assert streak.told(*refused(NEEDED - 1, start=10), content=NEWS)[-1] is not None
    assert streak.looks == [{ORDER}, {NEWS}]


def test_a_content_that_is_refused_while_another_one_is_taken_is_to_blame() -> None:
    """A filter that has learnt: the server takes all but this content, as the log shows."""
    streak = Streak()
    streak.told(*[sent()] * 30)
    for start in (0, 10):
        streak.told(*refused(NEEDED - 1, start))
        streak.told(sent(), content=ORDER)
        assert streak.told(*refused(NEEDED + 3, start)) == [None] * (NEEDED + 3)
    assert streak.looks == [{NEWS}, {NEWS}], "in each streak once"


def test_once_it_is_taken_again_it_is_not_to_blame_any_more() -> None:
    streak = Streak()
    streak.told(*refused(NEEDED - 1))
    streak.told(sent(), content=ORDER)
    streak.told(sent(), content=NEWS)
    assert streak.told(*refused(NEEDED, start=NEEDED))[-1] is not None


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.RETRY])
def test_a_probe_still_needs_no_other_email(verdict: Verdict) -> None:
    one = result("r@x.example", verdict=verdict, phase=Phase.DOT, reply=UNUSUAL)
    streak = RefusalStreak(NEEDED, known=refusal_of(one))
    assert streak.add(1, one, content=NEWS, traits=traits) is not None
