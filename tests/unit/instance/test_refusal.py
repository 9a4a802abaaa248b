"""From which place, and under which name, an outbox may send."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outbox.domain.instance import TAKEOVER, DatabasePlace, Instance

HERE = DatabasePlace(cluster="77", timeline="00000001", home="5/17")
UNTOLD = DatabasePlace()
HOME_ALONE = DatabasePlace(home="shop.outbox_instance")
NAMED = Instance(id="a", name="production", place=HERE)
NAMELESS = replace(NAMED, name="")


@pytest.mark.parametrize("found", [NAMED, NAMELESS])
def test_the_original_may_send(found: Instance) -> None:
    assert found.refusal(HERE, found.name) is None


@pytest.mark.parametrize("place", [HERE, UNTOLD, HOME_ALONE])
def test_an_app_without_a_name_may_not_send_from_tables_that_have_one(place: DatabasePlace) -> None:
    found = replace(NAMED, place=place).refusal(place, "") or ""
    assert "OUTBOX_INSTANCE is not set, but these tables are 'production'" in found
    assert "`flask outbox moved`" in found


def test_an_app_of_another_name_may_not_wherever_it_is() -> None:
    assert "'staging', but these tables are 'production'" in (NAMED.refusal(HERE, "staging") or "")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (replace(HERE, cluster="78"), "another database server"),
        (replace(HERE, home="6/17"), "another database, or were loaded"),
        (replace(HERE, home="5/18"), "another database, or were loaded"),
    ],
)
def test_another_cluster_database_or_table_is_a_copy_whatever_its_name(
    place: DatabasePlace, told: str
) -> None:
    for found in (NAMED, NAMELESS):
        assert told in (found.refusal(place, found.name) or "")


@pytest.mark.parametrize("idle", [0.0, TAKEOVER, TAKEOVER + 1.0])
def test_another_timeline_is_a_failover_if_it_came_soon_and_else_a_restored_backup(
    idle: float,
) -> None:
    found = replace(NAMED, idle=idle)
    refusal = found.refusal(replace(HERE, timeline="00000002"), "production")
    assert (refusal is None) is (idle <= TAKEOVER)


def test_a_long_silence_alone_says_nothing() -> None:
    assert replace(NAMED, idle=1e9).refusal(HERE, "production") is None


@pytest.mark.parametrize(
    "place", [UNTOLD, replace(UNTOLD, is_standby=True), replace(HERE, cluster="")]
)
def test_what_the_database_does_not_tell_is_not_held_against_it(place: DatabasePlace) -> None:
    assert NAMED.refusal(place, "production") is None
    assert replace(NAMED, place=UNTOLD).refusal(HERE, "production") is None


def test_the_original_gets_a_name_only_where_it_is_surely_the_original() -> None:
    assert NAMELESS.refusal(HERE, "production") is None
    for place in (UNTOLD, HOME_ALONE, replace(HERE, timeline="2")):
        refusal = replace(NAMELESS, place=place).refusal(place, "production")
        assert (refusal is None) is bool(place.cluster)
    assert NAMELESS.refusal(replace(HERE, home="6/17"), "staging")


def test_a_restore_that_has_not_ended_comes_before_all() -> None:
    assert "not come to its end" in (replace(NAMED, is_holding=True).refusal(HERE, "") or "")
