"""OUTBOX_RETENTION and OUTBOX_BODY_RETENTION: numbers of seconds, and a mapping by status."""

from __future__ import annotations

import pytest

from outbox import ConfigurationError, Status
from outbox.domain.config.retention import Retention
from outbox.domain.config.settings import Settings
from outbox.domain.config.typed_values import DAY
from outbox.domain.delivery.status import FINISHED


def read(value: object) -> Retention:
    return Settings.from_config({"OUTBOX_RETENTION": value}).retention


@pytest.mark.parametrize("value", [7 * DAY, "604800", 604_800])
def test_a_number_of_seconds_holds_for_every_finished_status(value: object) -> None:
    assert read(value).ages == dict.fromkeys(FINISHED, 7 * DAY)
    assert str(read(value)) == "604800.0"


def test_a_status_that_is_not_named_has_the_age_of_other_or_thirty_days() -> None:
    ages = read({"sent": DAY, "failed": "90"}).ages
    assert (ages[Status.SENT], ages[Status.FAILED]) == (DAY, 90.0)
    assert {ages[one] for one in FINISHED - {Status.SENT, Status.FAILED}} == {30 * DAY}
    ages = read({"failed": 90 * DAY, "other": 0}).ages
    assert ages == {**dict.fromkeys(FINISHED, 0.0), Status.FAILED: 90 * DAY}
    assert read({}) == Settings().retention


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (-1, "OUTBOX_RETENTION must be at least 0.0"),
        (float("nan"), "OUTBOX_RETENTION must be at least 0.0"),
        (10**400, "OUTBOX_RETENTION must be at most 2147483647"),
        (None, "OUTBOX_RETENTION must be a number, not None: leave the key out for its default"),
        ({"sent": -1}, 'OUTBOX_RETENTION["sent"] must be at least 0.0'),
        ({"sent": "soon"}, 'OUTBOX_RETENTION["sent"] must be a number, not this text'),
        (
            {"unknown": 1},
            "OUTBOX_RETENTION must have only the keys cancelled, expired, failed, sent, suppressed,"
            " other",
        ),
        ({3: 1}, "OUTBOX_RETENTION must have only the keys"),
    ],
)
def test_anything_else_is_refused_with_the_key(value: object, rule: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(value)
    assert str(refused.value).startswith(rule)


def test_bodies_stay_with_their_emails_unless_they_have_an_age_of_their_own() -> None:
    assert Settings().body_retention is None
    config = {"OUTBOX_BODY_RETENTION": "86400"}
    assert Settings.from_config(config).body_retention == DAY
    assert Settings.from_config({"OUTBOX_BODY_RETENTION": None}).body_retention is None
    with pytest.raises(ConfigurationError, match="OUTBOX_BODY_RETENTION must be at least 0"):
        Settings.from_config({"OUTBOX_BODY_RETENTION": -1})
