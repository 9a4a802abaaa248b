"""Chooses several emails that probe a server together: it refused each content alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ....domain.delivery.refusal_streak import TRIED
from ....domain.priority import Priority
from .comparison import Candidate


def on_trial(
    ranked: Sequence[Candidate],
    *,
    content: int | None,
    turn: int,
    most: int,
    random: Callable[[], float],
) -> list[Candidate]:
    """Return the emails of one lane that show best if the server refuses all, or some contents.

    The envelope does not tell which contents a server refuses. So the `turn` says which emails lead
    these: the urgent ones, the newest, the likeliest by their traits, or any. One other is among
    them. They were not tried before, where there are such ones, and have other contents than the
    last suspect.

    Behind these come some that were refused before. Each is tried behind one that was taken: see
    `RefusalStreak.pick`. There are `most` emails in all.
    """
    fresh = [one for one in ranked if one.is_fresh] or ranked
    fresh = [one for one in fresh if one.content != content] or fresh
    mixed = sorted(fresh, key=lambda _: random())
    leading = _ways(fresh, mixed)[turn % 4]
    lane = leading[0].lane
    tried = min(TRIED, max(1, (most + 1) // 2))
    led, others = ([one for one in some if one.lane == lane] for some in (leading, mixed))
    calm = [one for one in others if one.priority is not Priority.URGENT] or others
    first = _of_own_contents([*led[:1], *calm[:1], *led[1:]])[:tried]
    rest = [one for one in ranked if one.lane == lane and not one.is_fresh and one not in first]
    rest.sort(key=lambda _: random())
    return [*first, *_of_own_contents(rest)[: min(len(first) - 1, most - len(first))]]


def _ways(ranked: Sequence[Candidate], mixed: Sequence[Candidate]) -> list[Sequence[Candidate]]:
    """Return the emails in four orders; no urgent one leads the others that are not urgent."""
    calm = [one for one in ranked if one.priority is not Priority.URGENT] or ranked
    any_calm = [one for one in mixed if one.priority is not Priority.URGENT] or mixed
    urgent = sorted(mixed, key=lambda one: one.priority)
    newest = sorted(calm, key=lambda one: -one.id)
    return [urgent, newest, calm, any_calm]


def _of_own_contents(emails: Iterable[Candidate]) -> list[Candidate]:
    found: dict[int, Candidate] = {}
    for one in emails:
        found.setdefault(one.content, one)
    return list(found.values())
