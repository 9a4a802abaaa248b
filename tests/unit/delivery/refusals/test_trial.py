"""The emails that probe a server together, where it refused each content alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from math import inf

import pytest

from outbox.domain.delivery.blame import Traits
from outbox.domain.delivery.refusal_streak import TRIED
from outbox.domain.priority import Priority
from outbox.store.control.blame.comparison import Candidate
from outbox.store.control.blame.trial import on_trial, recipients_on_trial

MOST = 20
TRAITS = Traits(sender="shop@shop.example", domains=frozenset({"x.example"}), size=1000)


def candidate(number: int, priority: Priority = Priority.NORMAL, **changes: object) -> Candidate:
    values: dict[str, object] = {"lane": "a", "content": number, "is_fresh": True} | changes
    return Candidate(id=number, priority=priority, traits=TRAITS, expires=False, **values)  # type: ignore[arg-type]


def chosen(
    emails: Iterable[Candidate], *, turn: int = 0, most: int = MOST, most_bytes: float = inf
) -> list[int]:
    ticks = count()
    made = on_trial(
        list(emails),
        content=0,
        turn=turn,
        most=most,
        most_bytes=most_bytes,
        random=lambda: float(next(ticks)),
    )
    return [one.id for one in made]


NORMAL = [candidate(n) for n in range(1, 50)]
URGENT = [candidate(n, Priority.URGENT) for n in range(50, 60)]
REFUSED = [candidate(n, is_fresh=False) for n in range(60, 70)]


def test_urgent_ones_lead_at_first_with_one_other_among_them() -> None:
    made = chosen([*NORMAL, *URGENT])
    assert len(made) == TRIED
    assert sum(50 <= one < 60 for one in made) == TRIED - 1
    assert made[0] >= 50


def test_each_trial_has_twice_as_many_as_the_one_before_up_to_a_window() -> None:
    made = [len(chosen(NORMAL, turn=turn)) for turn in (0, 1, 2, 3, 10**6)]
    assert made == [TRIED, 2 * TRIED, MOST - TRIED + 1, MOST - TRIED + 1, MOST - TRIED + 1]
    assert chosen(REFUSED, turn=3) == chosen(REFUSED), "they were tried before: it does not hurry"


def test_a_window_bounds_them_in_bytes_too() -> None:
    assert len(chosen(NORMAL, most_bytes=3 * TRAITS.size)) == 3
    assert len(chosen(NORMAL, most_bytes=1)) == 1


@pytest.mark.parametrize("turn", range(4))
def test_emails_of_each_sender_and_tag_come_in_turn(turn: int) -> None:
    news = [candidate(n, tag="news") for n in range(100, 500)]
    orders = [candidate(n, tag="order") for n in (1, 2)]
    other = replace(candidate(3), traits=replace(TRAITS, sender="other@shop.example"))
    made = chosen([*news, *orders, other], turn=turn)
    assert {1, 2, 3} <= set(made)


def test_the_newest_lead_then_and_none_is_urgent() -> None:
    made = chosen([*NORMAL, *URGENT], turn=1)
    assert [made[0], *made[2:]] == list(range(49, 40, -1))
    assert made[1] < 50


def test_behind_them_come_fewer_that_were_refused_before() -> None:
    made = chosen([*NORMAL, *REFUSED])
    assert [one >= 60 for one in made] == [False] * TRIED + [True] * (TRIED - 1)


def test_a_small_window_bounds_them() -> None:
    assert len(chosen([*NORMAL, *REFUSED], most=4)) == 3
    assert len(chosen([*NORMAL, *REFUSED], most=1)) == 1


def test_all_are_of_one_lane_and_of_contents_of_their_own() -> None:
    news = [candidate(n, content=7) for n in range(100, 200)]
    other = [candidate(n, lane="b") for n in range(200, 300)]
    assert chosen([*news, *other], turn=2) == [100]


def test_the_last_suspects_content_and_what_was_tried_come_last() -> None:
    same = [candidate(n, content=0) for n in range(100, 110)]
    assert set(chosen([*same, *NORMAL[:3]])) == {1, 2, 3}
    assert chosen(same) == [100]
    assert set(chosen(REFUSED)) <= set(range(60, 70))


def recipients_chosen(emails: Iterable[Candidate], *, most: int = MOST) -> list[int]:
    made = recipients_on_trial(list(emails), most=most, random=lambda: 0.5)
    return [one.id for one in made]


def to(number: int, domain: str, *, is_fresh: bool = True) -> Candidate:
    traits = replace(TRAITS, domains=frozenset({domain}), is_fresh=is_fresh)
    return replace(candidate(number, is_fresh=is_fresh), traits=traits)


def test_of_recipients_an_urgent_one_leads_and_then_the_newest_and_any_other() -> None:
    made = recipients_chosen([*NORMAL, *URGENT])
    assert made == [59, 49, 48, 47, 46, 45, 44, 43, 42, 41]


def test_each_recipient_has_a_domain_of_its_own_and_none_that_was_refused() -> None:
    emails = [
        *(to(n, "news.example") for n in range(1, 4)),
        *(to(n, f"d{n}.example") for n in range(4, 7)),
        to(7, "refused.example"),
        to(8, "refused.example", is_fresh=False),
    ]
    assert recipients_chosen(emails) == [6, 5, 4, 3, 7, 2, 1, 8]


def test_recipients_that_were_all_refused_before_are_tried_again() -> None:
    assert set(recipients_chosen(REFUSED)) <= set(range(60, 70))
    assert len(recipients_chosen([*NORMAL, *REFUSED], most=4)) == 4
    assert len(recipients_chosen([*NORMAL, *REFUSED], most=1)) == 1
