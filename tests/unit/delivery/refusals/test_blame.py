"""Whose fault is a halting reply: what emails have in common, and which one is tried next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.blame import (
    CLASSES,
    Common,
    Suspicion,
    Traits,
    most_different,
    patience,
)
from outbox.domain.delivery.transaction import Envelope

pytestmark = pytest.mark.over_and_over


def traits(
    sender: str = "shop@shop.example", domain: str = "a.example", size: int = 1000
) -> Traits:
    return Traits(sender=sender, domains=frozenset({domain}), size=size)


SUSPECT = traits()
HALF = (0.5).__float__
"""A random source."""
OTHER_SENDER, OTHER_DOMAIN = traits(sender="news@shop.example"), traits(domain="b.example")
SMALLER = traits(size=400)
EMAILS = st.builds(
    traits,
    sender=st.sampled_from(["a@x.example", "b@x.example", "c@x.example"]),
    domain=st.sampled_from(["a.example", "b.example", "c.example"]),
    size=st.sampled_from([400, 1000, 10_000]),
)


def test_an_email_s_traits_are_those_that_a_server_sees() -> None:
    envelope = Envelope(sender="Shop@Shop.example", recipients=("a@One.example", "b@two.example"))
    assert Traits.of(envelope, 7, is_fresh=True) == Traits(
        sender="shop@shop.example", domains=frozenset({"one.example", "two.example"}), size=7
    )


@pytest.mark.parametrize(
    ("email", "lacks"),
    [
        (SUSPECT, 0),
        (OTHER_SENDER, 1),
        (OTHER_DOMAIN, 1),
        (SMALLER, 1),
        (traits(size=900), 0),
        (traits("news@shop.example", "b.example", 10), 3),
    ],
)
def test_each_trait_that_an_email_lacks_counts_once(email: Traits, lacks: int) -> None:
    assert Common.of([SUSPECT]).lacked_by(email) == lacks


def test_the_email_that_differs_most_is_tried_next_and_the_first_of_equals() -> None:
    untried = [SUSPECT, OTHER_DOMAIN, traits("x@y.example", "z.example"), OTHER_SENDER]
    assert most_different(Common.of([SUSPECT]), untried) == 2
    assert most_different(Common.of([SUSPECT]), [SUSPECT, SUSPECT]) == 0


def test_one_suspect_alone_proves_nothing() -> None:
    suspicion = Suspicion()
    assert not suspicion
    suspicion.add(SUSPECT)
    assert suspicion
    assert not suspicion.is_enough([])


@pytest.mark.parametrize("outsider", [OTHER_SENDER, OTHER_DOMAIN, SMALLER])
def test_while_an_outsider_is_untried_a_class_may_be_to_blame(outsider: Traits) -> None:
    suspicion = Suspicion()
    suspicion.add(SUSPECT)
    suspicion.add(SUSPECT)
    assert not suspicion.is_enough([SUSPECT, outsider])
    assert suspicion.is_enough([SUSPECT])


UNLIKE = [traits(f"a@x{number}.example", f"{number}.example") for number in range(CLASSES + 1)]


@pytest.mark.parametrize("classes", range(2, CLASSES + 1))
def test_those_that_have_nothing_in_common_may_be_of_so_many_classes(classes: int) -> None:
    suspicion = Suspicion()
    for suspect in UNLIKE[:classes]:
        suspicion.add(suspect)
    assert suspicion.could_tell(UNLIKE[classes])
    assert not suspicion.is_enough([UNLIKE[classes]])
    assert not any(map(suspicion.could_tell, UNLIKE[:classes]))
    assert suspicion.is_enough(UNLIKE[:classes])


def test_more_classes_than_a_server_may_well_halt_at_the_same_time_blame_it() -> None:
    suspicion = Suspicion()
    for suspect in UNLIKE:
        suspicion.add(suspect)
    another = traits("another@x.example", "another.example")
    assert suspicion.is_enough([another])
    smaller = traits("another@x.example", "another.example", 100)  # one class: all that are larger
    assert not suspicion.is_enough([another, smaller])


def test_where_a_server_is_silent_two_that_have_nothing_in_common_blame_it() -> None:
    suspicion = Suspicion()
    suspicion.add(UNLIKE[0])
    suspicion.add(UNLIKE[1], silent=True)
    assert suspicion.is_enough([UNLIKE[2]])
    suspicion.clear()
    suspicion.add(UNLIKE[0])
    suspicion.add(UNLIKE[1])
    assert not suspicion.is_enough([UNLIKE[2]])


def test_the_email_that_needs_the_fewest_classes_is_tried_next() -> None:
    """The domain explains both: another one tells, however much else the first has for itself."""
    suspicion = Suspicion(traits("a@x.example"))
    suspicion.add(traits("b@x.example", size=100))
    same_domain = traits("c@x.example", size=400)
    assert suspicion.pick([same_domain, traits("a@x.example", "b.example")], HALF) == 1
    assert suspicion.pick([traits("a@x.example"), same_domain], HALF) == 1
    unlike = [SUSPECT, OTHER_DOMAIN, traits("x@y.example", "z.example")]
    assert Suspicion(SUSPECT).pick(unlike, HALF) == 2


def test_of_several_that_tell_as_much_one_that_was_not_delayed_before_is_tried_next() -> None:
    delayed, fresh = replace(UNLIKE[1], is_fresh=False), UNLIKE[2]
    assert Suspicion(UNLIKE[0]).pick([delayed, fresh], HALF) == 1
    draws = iter([0.9, 0.2, 0.5])
    assert Suspicion(UNLIKE[0]).pick([UNLIKE[1], fresh, UNLIKE[3]], lambda: next(draws)) == 1


def test_senders_of_one_domain_are_one_class() -> None:
    """VERP: each reader's email has a sender of its own."""
    suspicion = Suspicion()
    for number in range(9):
        suspicion.add(traits(f"news+{number}@news.example", f"d{number}.example"))
    assert suspicion.could_tell(traits("shop@shop.example", "e.example"))
    assert not suspicion.could_tell(traits("news+9@news.example", "e.example"))


@given(st.lists(EMAILS, min_size=1), EMAILS)
def test_one_class_alone_explains_what_the_suspects_have_in_common(
    suspects: list[Traits], email: Traits
) -> None:
    suspicion = Suspicion()
    for suspect in suspects:
        suspicion.add(suspect, silent=True)
    assert suspicion.could_tell(email) == (Common.of(suspects).lacked_by(email) > 0)


@given(st.lists(EMAILS, min_size=1), EMAILS)
def test_who_is_like_a_suspect_in_everything_tells_nothing(
    suspects: list[Traits], email: Traits
) -> None:
    suspicion = Suspicion(email)
    for suspect in suspects:
        suspicion.add(suspect)
    assert not suspicion.could_tell(email)


def test_the_suspect_of_an_earlier_batch_counts_until_one_is_judged() -> None:
    suspicion = Suspicion(SUSPECT)
    suspicion.add(traits("x@y.example", "z.example"))
    assert suspicion.is_enough([])
    suspicion.clear()
    assert not suspicion
    assert not suspicion.is_enough([])


@given(st.lists(EMAILS, min_size=1), st.lists(EMAILS))
def test_whoever_is_chosen_differs_at_least_as_much_as_all_others(
    suspects: list[Traits], untried: list[Traits]
) -> None:
    common = Common.of(suspects)
    assert all(common.lacked_by(one) == 0 or len(set(suspects)) > 1 for one in suspects[:1])
    if untried:
        chosen = untried[most_different(common, untried)]
        assert common.lacked_by(chosen) == max(map(common.lacked_by, untried))


@given(st.lists(EMAILS, min_size=2), st.lists(EMAILS))
def test_more_suspects_never_make_a_class_larger(
    suspects: list[Traits], untried: list[Traits]
) -> None:
    """What one suspect more has in common with the others is never more than they had."""
    before, after = Common.of(suspects[:-1]), Common.of(suspects)
    assert after.domains <= before.domains
    assert after.sender in (None, before.sender)
    assert after.size <= before.size


def test_what_is_like_a_slow_email_comes_last_also_when_another_was_judged() -> None:
    unlike = traits("news@other.example", "z.example")
    untried = [SUSPECT, OTHER_DOMAIN, unlike, traits(sender="a@other.example")]
    suspicion = Suspicion()
    assert suspicion.order(untried, HALF) == [0, 1, 2, 3], "nothing is slow: each keeps its place"
    suspicion.note_slow(SUSPECT)
    suspicion.clear()
    assert suspicion
    assert suspicion.order(untried, HALF)[0] == 2
    assert suspicion.order(untried, HALF)[-1] == 0
    assert suspicion.could_tell(SUSPECT), "a slow one blames nobody"


@pytest.mark.parametrize(
    ("waited", "slowest", "seconds"),
    [(0, 0, 0), (0, 15, 30), (40, 15, 40), (600, 0, 60), (0, 150, 60), (600, 600, 60)],
)
def test_a_silent_server_has_longer_where_it_may_be_slow_and_never_over_a_minute(
    waited: float, slowest: float, seconds: float
) -> None:
    assert patience(waited, slowest) == seconds
