"""The streak of a probe: contents were refused, and each email it tries tells whose fault it is."""

from __future__ import annotations

from dataclasses import replace

from outbox.domain.delivery.blame import Traits
from outbox.domain.delivery.refusal_fingerprint import refusal_of
from outbox.domain.delivery.refusal_streak import RefusalStreak
from outbox.domain.delivery.transaction import Phase, Reply, Transaction
from tests.unit.delivery.refusals.test_refusal_streak import NEEDED, refusals, sent, traits


def fresh(is_fresh: bool = True) -> Traits:
    return replace(traits(), is_fresh=is_fresh)


def probing() -> tuple[RefusalStreak, list[Transaction]]:
    """Return the streak of a probe, and contents that are refused as is known."""
    refused = refusals(4, phase=Phase.DOT)
    return RefusalStreak(NEEDED, known=refusal_of(refused[0])), refused


def test_a_probe_tries_what_was_refused_before_behind_each_email_that_was_taken() -> None:
    streak, refused = probing()
    untried = [fresh(False), fresh()]
    assert (streak.is_probing, streak.pick(untried)) == (True, 1)
    streak.add(1, sent(), content=1, traits=fresh)
    assert streak.pick(untried) == 0
    streak.add(2, refused[0], content=2, traits=lambda: fresh(False))
    assert streak.pick(untried) == 1
    assert not RefusalStreak(NEEDED).is_probing


def test_behind_one_that_was_taken_a_fresh_one_must_be_refused_as_well() -> None:
    streak, refused = probing()
    streak.add(1, sent(), content=1, traits=fresh)
    for n in (0, 1):
        assert streak.add(2 + n, refused[n], content=2 + n, traits=lambda: fresh(False)) is None
    alike = streak.add(4, refused[2], content=4, traits=fresh)
    assert alike is not None
    assert (alike.known, alike.fresh) == (True, 1)
    assert alike.emails == {2, 3, 4}


def test_of_recipients_a_probe_tries_one_that_was_refused_before_and_then_from_both_ends() -> None:
    refused = refusals(4, reply=Reply(code=550, text="No, thank you"))
    streak = RefusalStreak(NEEDED, known=refusal_of(refused[0]))
    untried = [fresh(), fresh(), fresh(False), fresh()]
    assert (streak.is_probing, streak.pick(untried)) == (True, 2)
    streak.add(1, refused[0], content=1, traits=lambda: fresh(False))
    assert streak.pick(untried) == 3
    streak.add(2, refused[1], content=2, traits=fresh)
    assert streak.pick(untried) == 0
    streak.add(3, sent(), content=3, traits=fresh)
    assert streak.pick(untried) == 2
    assert streak.add(4, refused[2], content=4, traits=lambda: fresh(False)) is None
    assert streak.add(5, refused[3], content=5, traits=lambda: fresh(False)) is not None


def test_a_blocklisted_client_is_probed_by_one_email() -> None:
    blocked = "rcpt: 554 5.7.1 Service unavailable; Client host # blocked using zen"
    assert not RefusalStreak(NEEDED, known=blocked).is_probing
    assert not RefusalStreak(NEEDED, known="mail: 550  No").is_probing
