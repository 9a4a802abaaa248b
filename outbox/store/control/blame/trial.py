"""Chooses several emails that probe a server together: it refused all others alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf

from ....domain.delivery.refusal_streak import trial_size
from ....domain.priority import Priority
from .comparison import Candidate


def on_trial(
    ranked: Sequence[Candidate],
    *,
    content: int | None,
    turn: int,
    most: int,
    most_bytes: float = inf,
    random: Callable[[], float],
) -> list[Candidate]:
    """Return the emails of one lane that show best if the server refuses all, or some contents.

    The envelope does not tell which contents a server refuses. So the `turn` says which emails lead
    these: the urgent ones, the newest, the likeliest by their traits, or any. One other is among
    them. They were not tried before, where there are such ones, and have other contents than the
    last suspect.

    Emails of each sender and tag come in turn, so that those of one newsletter leave room.

    Behind these come some that were refused before. Each is tried behind one that was taken: see
    `RefusalStreak.pick`. There are `most` emails in all, of `most_bytes`: they fit one window.
    """
    is_any_fresh = any(one.is_fresh for one in ranked)
    fresh = [one for one in ranked if one.is_fresh is is_any_fresh]
    fresh = [one for one in fresh if one.content != content] or fresh
    mixed = _in_turn(sorted(fresh, key=lambda _: random()))
    leading = _ways(_in_turn(fresh), mixed)[turn % 4]
    lane = leading[0].lane
    tried = trial_size(turn + 1 if is_any_fresh else 1, most)
    led, others = ([one for one in some if one.lane == lane] for some in (leading, mixed))
    calm = [one for one in others if one.priority is not Priority.URGENT] or others
    first = _of_own_contents([*led[:1], *calm[:1], *led[1:]])[:tried]
    rest = [one for one in ranked if one.lane == lane and not one.is_fresh and one not in first]
    rest.sort(key=lambda _: random())
    again = _of_own_contents(rest)[: min(len(first) - 1, most - len(first))]
    return list(_within([*first, *again], most_bytes))


def recipients_on_trial(
    ranked: Sequence[Candidate],
    *,
    most: int,
    most_bytes: float = inf,
    random: Callable[[], float],
) -> list[Candidate]:
    """Return the emails of one lane that show best if the server refuses all, or some recipients.

    Those that it takes mostly came behind those that it refused. So an urgent one leads, then the
    newest, any other, and more of the newest. They were not tried before, if there are such ones.
    Each has its own domains, and none that an email was refused for, as far as there are such.

    Behind these come as many that were refused before: see `RefusalStreak.pick`. Only a server that
    takes one of them gets more than `TRIED` of them all.
    """
    is_any_fresh = any(one.is_fresh for one in ranked)
    fresh = [one for one in ranked if one.is_fresh is is_any_fresh]
    old = [one for one in ranked if one.is_fresh is not is_any_fresh]
    refused = frozenset[str]().union(*(one.traits.domains for one in old))
    newest = _in_turn(sorted(fresh, key=lambda one: -one.id if is_any_fresh else random()))
    newest.sort(key=lambda one: one.traits.domains <= refused)
    urgent = [one for one in newest if one.priority is Priority.URGENT]
    calm = [one for one in newest if one.priority is not Priority.URGENT]
    any_ = sorted(calm, key=lambda _: random())[:1]
    led = [*urgent[:1], *calm[:1], *any_, *calm, *urgent]
    lane = led[0].lane
    first = _of_own_domains(one for one in led if one.lane == lane)[: trial_size(2, most)]
    again = sorted((one for one in old if one.lane == lane), key=lambda _: random())
    return list(_within([*first, *again[: min(len(first), most - len(first))]], most_bytes))


def _of_own_domains(emails: Iterable[Candidate]) -> list[Candidate]:
    """Return each email once, those behind whose domains an earlier one has."""
    found = list({one.id: one for one in emails}.values())
    leads = {one.id for one in {o.traits.domains: o for o in reversed(found)}.values()}
    return sorted(found, key=lambda one: one.id not in leads)


def _within(emails: Sequence[Candidate], most_bytes: float) -> Iterator[Candidate]:
    """Yield the first email, and of the others what fits beside it."""
    size = 0
    for one in emails:
        if size and size + one.traits.size > most_bytes:
            continue
        size += one.traits.size
        yield one


def _in_turn(emails: Iterable[Candidate]) -> list[Candidate]:
    """Return the first email of each sender and tag, then the second of each, and so on."""
    seen, places = Counter[tuple[str, str | None]](), dict[int, int]()
    found = list(emails)
    for one in found:
        kind = one.traits.sender, one.tag
        places[one.id] = seen[kind]
        seen[kind] += 1
    return sorted(found, key=lambda one: places[one.id])


def _ways(ranked: Sequence[Candidate], mixed: Sequence[Candidate]) -> list[Sequence[Candidate]]:
    """Return the emails in four orders; no urgent one leads the others that are not urgent."""
    calm = [one for one in ranked if one.priority is not Priority.URGENT] or ranked
    any_calm = [one for one in mixed if one.priority is not Priority.URGENT] or mixed
    urgent = sorted(mixed, key=lambda one: one.priority)
    newest = _in_turn(sorted(calm, key=lambda one: -one.id))
    return [urgent, newest, calm, any_calm]


def _of_own_contents(emails: Iterable[Candidate]) -> list[Candidate]:
    found: dict[int, Candidate] = {}
    for one in emails:
        found.setdefault(one.content, one)
    return list(found.values())
