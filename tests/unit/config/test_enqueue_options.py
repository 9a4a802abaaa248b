"""How an email is to be sent: every option is checked, and the error names it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.config.enqueue_options import (
    MAX_KEY,
    MAX_TAG,
    Options,
    Reading,
    refuse_none,
)
from outbox.domain.config.settings import MOST_TRIES, OnUnknown
from outbox.domain.errors import InvalidMessage
from outbox.domain.header.address import CONTROL
from outbox.domain.priority import Priority

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
CONTROLS = ["\r", "\n", "\0", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\u2029", "\ud800", "\udc80"]


def refused(**options: Any) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        Options.check(**{"priority": Priority.NORMAL, **options})
    return caught.value


def test_without_options_everything_is_left_to_the_settings() -> None:
    assert Options.check(priority=1) == Options(priority=Priority.NORMAL)


def test_all_options_are_kept_and_times_are_in_utc() -> None:
    berlin = timezone(timedelta(hours=2))
    options = Options.check(
        priority="urgent",
        send_at=NOON.astimezone(berlin),
        expires_at=NOON + timedelta(minutes=15),
        key="order:1",
        tag="orders",
        on_unknown="hold",
        max_attempts=3,
    )
    assert options == Options(
        priority=Priority.URGENT,
        send_at=NOON,
        expires_at=NOON + timedelta(minutes=15),
        key="order:1",
        tag="orders",
        on_unknown=OnUnknown.HOLD,
        max_attempts=3,
    )
    assert options.send_at is not None
    assert options.send_at.tzinfo is UTC


@pytest.mark.parametrize("field", ["send_at", "expires_at"])
@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (datetime(2026, 5, 4, 12), "must be aware"),  # noqa: DTZ001  (naive is what it is about)
        ("2026-05-04T12:00Z", "must be a datetime"),
        (1_777_896_000, "must be a datetime"),
        (NOON.date(), "must be a datetime"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "out of range"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "out of range"),
    ],
)
def test_a_time_that_is_no_aware_datetime_is_refused(field: str, value: Any, rule: str) -> None:
    error = refused(**{field: value})
    assert error.field == field
    assert rule in error.rule


@pytest.mark.parametrize("minutes", [0, -1])
def test_an_email_must_not_expire_before_it_is_sent(minutes: int) -> None:
    error = refused(send_at=NOON, expires_at=NOON + timedelta(minutes=minutes))
    assert (error.field, error.rule) == ("expires_at", "must be after send_at")


def at_noon() -> Reading:
    return Reading(NOON, "the clock of the town hall")


@pytest.mark.parametrize(("seconds", "is_past"), [(-1, True), (0, True), (1, False)])
def test_an_email_must_not_have_expired_already(seconds: int, is_past: bool) -> None:
    ends = NOON + timedelta(seconds=seconds)
    if not is_past:
        assert Options.check(priority=1, expires_at=ends, now=at_noon).expires_at == ends
        return
    error = refused(expires_at=ends, now=at_noon)
    told = "has passed already, by the clock of the town hall"
    assert (error.field, error.rule) == ("expires_at", told)


@pytest.mark.parametrize("field", ["send_at", "expires_at"])
@pytest.mark.parametrize("year", [1, 1969, 9000, 9999])
def test_a_time_that_a_driver_may_not_read_again_is_refused(field: str, year: int) -> None:
    error = refused(**{field: datetime(year, 12, 31, 23, 59, tzinfo=UTC)})
    assert (error.field, "from the year 1970 to 8999" in error.rule) == (field, True)
    given: dict[str, Any] = {field: datetime(8999, 12, 31, 23, 59, tzinfo=UTC)}
    assert getattr(Options.check(priority=1, **given), field) == given[field]


@pytest.mark.parametrize("field", ["key", "tag"])
@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
def test_control_characters_in_a_key_or_a_tag_are_refused(field: str, control: str) -> None:
    error = refused(**{field: f"a{control}b"})
    assert (error.field, "control characters" in error.rule) == (field, True)


@pytest.mark.parametrize(("field", "longest"), [("key", MAX_KEY), ("tag", MAX_TAG)])
def test_a_key_or_a_tag_has_its_length(field: str, longest: int) -> None:
    taken: dict[str, Any] = {field: "x" * longest}
    assert getattr(Options.check(priority=1, **taken), field) == "x" * longest
    for wrong in ("", "x" * (longest + 1), 5, b"x", ["x"]):
        assert refused(**{field: wrong}).field == field


@pytest.mark.parametrize("key", ["order-None", "None", "None/2", "order:None:v2", "order_None"])
def test_a_key_without_its_id_is_refused(key: str) -> None:
    """The keys of all orders would be the same one."""
    error = refused(key=key)
    assert (error.field, "session.flush()" in error.rule) == ("key", True)
    assert Options.check(priority=1, tag=key).tag == key


@pytest.mark.parametrize("key", ["order-Nonesuch", "PhoneNone", "none", "None1", "order-NONE"])
def test_a_key_with_another_word_is_taken(key: str) -> None:
    assert Options.check(priority=1, key=key).key == key


ADDRESSES = ["None@x.example", "ann@None.example"]


@pytest.mark.parametrize("key", ["news-5-None@x.example", "None@x.example/ann@None.example", "5"])
def test_a_none_in_an_address_is_no_missing_id(key: str) -> None:
    refuse_none(key, ADDRESSES)


@pytest.mark.parametrize("key", ["news-None-None@x.example", "None-ann@None.example", "None@y.z"])
def test_a_none_beside_an_address_is_a_missing_id(key: str) -> None:
    with pytest.raises(InvalidMessage, match=r"session\.flush\(\)"):
        refuse_none(key, ADDRESSES)


@pytest.mark.parametrize("field", ["key", "tag"])
@pytest.mark.parametrize("value", [" a", "a ", "\u00a0a", "a\u3000"], ids=ascii)
def test_a_blank_at_an_end_is_refused(field: str, value: str) -> None:
    assert "blank" in refused(**{field: value}).rule


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "3", MOST_TRIES + 1])
def test_max_attempts_is_a_small_positive_number(value: Any) -> None:
    assert refused(max_attempts=value).field == "max_attempts"


@pytest.mark.parametrize("value", ["", "retry", "RESEND", 1, True, [], {}])
def test_on_unknown_is_one_of_its_words(value: Any) -> None:
    error = refused(on_unknown=value)
    assert (error.field, error.rule) == ("on_unknown", "must be one of resend, hold")


@pytest.mark.parametrize("word", ["resend", OnUnknown.RESEND])
def test_on_unknown_is_read_as_a_word_or_a_member(word: Any) -> None:
    assert Options.check(priority=1, on_unknown=word).on_unknown is OnUnknown.RESEND


@pytest.mark.parametrize("value", ["", "when failed", "When sent", 1, True, False, [], {}])
def test_a_body_goes_when_its_email_is_sent_or_not_before_its_time(value: Any) -> None:
    assert Options.check(priority=1, redact="when sent").redact
    assert not Options.check(priority=1, redact=None).redact
    error = refused(redact=value)
    assert (error.field, error.rule) == ("redact", 'must be "when sent"')


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
    st.datetimes(), st.datetimes(timezones=st.timezones()), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=1), st.none(), max_size=1), st.sampled_from(OnUnknown),
    st.sampled_from(Priority), st.text(st.sampled_from("a \r\n\0\u2028\ud800")),
)  # fmt: skip
NAMES = ["priority", "send_at", "expires_at", "key", "tag", "on_unknown", "max_attempts", "redact"]


@pytest.mark.long
@given(st.fixed_dictionaries({"priority": ANYTHING}, optional=dict.fromkeys(NAMES[1:], ANYTHING)))
def test_whatever_is_given_the_only_error_names_an_option(given_: dict[str, Any]) -> None:
    refusal = None
    try:
        options = Options.check(**given_)
    except InvalidMessage as error:
        refusal = error
    if refusal is not None:
        assert refusal.field in NAMES
        return
    for name in (options.key, options.tag):
        assert name is None or not CONTROL.search(name)
    if options.send_at and options.expires_at:
        assert options.send_at < options.expires_at
