"""The least and the most of each setting: what is beyond is refused, and the bounds are taken."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from outbox.domain.config.settings import Settings
from outbox.domain.errors import ConfigurationError
from outbox.domain.header.address import MAX_ID_DOMAIN
from outbox.domain.instance import MAX_INSTANCE
from tests.unit.config.test_settings import FIELDS, NUMBERS, key, kind_of, read, refused


@pytest.mark.parametrize("field", NUMBERS, ids=key)
def test_less_than_the_least_is_refused_and_the_least_is_taken(
    field: dataclasses.Field[Any],
) -> None:
    least = field.metadata["least"]
    small = {"OUTBOX_WINDOW": 1, "OUTBOX_BATCH": max(1, Settings().batch)}
    assert f"{key(field)} must be at least {least}" == refused(**{key(field): type(least)(-1)})
    kind = kind_of(field)
    assert getattr(read(**{**small, key(field): kind(least)}), field.name) == least


@pytest.mark.parametrize("field", NUMBERS, ids=key)
def test_more_than_the_most_is_refused_and_the_most_is_taken(
    field: dataclasses.Field[Any],
) -> None:
    most = field.metadata["most"]
    assert f"{key(field)} must be at most {most}" == refused(**{key(field): most + 1})
    if field.name != "window":  # which is bounded by the batch, too
        assert getattr(read(**{key(field): most}), field.name) == most


@pytest.mark.parametrize("name", ["backoff", "retention", "body_retention"])
def test_what_is_read_in_its_own_way_keeps_to_its_bounds_too(name: str) -> None:
    (field,) = (one for one in FIELDS if one.name == name)
    least, most = field.metadata["least"], field.metadata["most"]
    for seconds in (least, most, least - 0.5, most + 0.5):
        value = [seconds] if name == "backoff" else seconds
        if least <= seconds <= most:
            assert read(**{key(field): value})
        else:
            assert key(field) in refused(**{key(field): value})


def test_the_lengths_that_the_settings_tell_are_those_that_are_taken() -> None:
    longest = f"{'a' * 63}.{'b' * 63}.{'c' * 52}"
    assert len(longest) == MAX_ID_DOMAIN
    for name, value, more in (
        ("OUTBOX_RATE", "999999999/s", "1000000000/s"),
        ("OUTBOX_INSTANCE", "i" * MAX_INSTANCE, "i" * (MAX_INSTANCE + 1)),
        ("OUTBOX_MESSAGE_ID_DOMAIN", longest, f"{longest}c"),
        ("OUTBOX_ENCRYPTION_KEYS", {"k" * 32: b"x" * 32}, {"k" * 33: b"x" * 32}),
    ):
        assert read(**{name: value})
        assert name in refused(**{name: more})


@pytest.mark.parametrize("name", ["mail.shop.example\n", "mail shop", "bücher.example", "a\0b"])
def test_a_name_that_ehlo_cannot_carry_is_refused(name: str) -> None:
    said = "OUTBOX_HELO_NAME must be a name in ASCII, without blanks and line ends"
    assert refused(OUTBOX_HELO_NAME=name) == said
    for other in ("", "mail.shop.example", "[192.0.2.1]", "[IPv6:2001:db8::1]", "mx_1"):
        assert read(OUTBOX_HELO_NAME=other)


@pytest.mark.parametrize("key", ["OUTBOX_MAX_ATTEMPTS", "OUTBOX_MAX_CRASHES"])
def test_what_is_counted_of_an_email_fits_its_column(key: str) -> None:
    assert refused(**{key: 100_000}) == f"{key} must be at most 30000"
    assert read(**{key: 30_000})


@pytest.mark.parametrize(
    "key",
    [
        "OUTBOX_LEASE",
        "OUTBOX_CONNECT_TIMEOUT",
        "OUTBOX_COMMAND_TIMEOUT",
        "OUTBOX_DOT_TIMEOUT",
        "OUTBOX_TRANSACTION_TIMEOUT",
    ],
)
def test_no_time_is_longer_than_sockets_and_databases_can_wait(key: str) -> None:
    """A socket's time-out of 4,294,967.5 s ends after 0.2 s."""
    assert refused(**{key: 4_294_967.5}) == f"{key} must be at most 86400.0"
    assert read(**{key: 86_400})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (30, "must be a list of seconds"),
        ([], "must be a list of seconds"),
        (["30"], "must hold seconds from 1 to 86400, not '30'"),
        ([0.5], "must hold seconds from 1"),
        ([True], "must hold seconds"),
        ([float("nan")], "must hold seconds"),
        ([90_000], "must hold seconds from 1 to 86400, not 90000"),
    ],
)
def test_a_retry_schedule_is_a_list_of_sensible_seconds(value: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match="OUTBOX_BACKOFF") as raised:
        read(OUTBOX_BACKOFF=value)
    assert said in str(raised.value)
