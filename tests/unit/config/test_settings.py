"""The library's settings: read once, checked as a whole, misspelt ones corrected."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from outbox.domain.config.retention import Retention
from outbox.domain.config.settings import OnUnknown, Settings
from outbox.domain.errors import ConfigurationError
from outbox.domain.scheduling.token_bucket import Rate

FIELDS: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(Settings)
DEFAULTS: dict[str, Any] = {field.name: field.default for field in FIELDS}
OTHERS: dict[str, tuple[Any, Any]] = {
    "rate": ("500/min", Rate(500, 60)),
    "domain_rates": ({"gmail.com": "20/s"}, {"gmail.com": Rate(20, 1)}),
    "slots": ("8", 8),
    "bulk_share": (1, 1.0),
    "message_id_domain": ("Shop.example", "shop.example"),
    "backoff": ([15, 30.5], (15.0, 30.5)),
    "previews": (False, False),
    "search": (["subject", "recipient"], ("recipient", "subject")),
    "retention": ("60", Retention.of_all(60.0)),
    "body_retention": ("60", 60.0),
    "encryption_keys": ({"k1": "YWJj" * 10 + "YWI="}, {"k1": b"abc" * 10 + b"ab"}),
}


def kind_of(field: dataclasses.Field[Any]) -> type:
    """Return the type of the setting's values; a default of None is of another one."""
    return field.metadata["kind"] or type(field.default)


NUMBERS = [field for field in FIELDS if kind_of(field) in (int, float)]


def key(field: dataclasses.Field[Any]) -> str:
    return f"OUTBOX_{field.name.upper()}"


def read(**config: Any) -> Settings:
    return Settings.from_config(config)


def refused(**config: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(**config)
    return str(caught.value)


def test_no_keys_are_the_defaults_and_other_keys_are_not_ours() -> None:
    assert read(SECRET_KEY="x", MAIL_PORT=25, CELERY={}) == Settings()


def test_every_setting_says_what_it_is() -> None:
    assert all(field.metadata["doc"] for field in FIELDS)
    assert all(field.metadata["least"] is not None for field in NUMBERS)


@pytest.mark.parametrize("field", FIELDS, ids=key)
def test_every_setting_is_read_from_its_key(field: dataclasses.Field[Any]) -> None:
    if field.name in OTHERS:
        value, wanted = OTHERS[field.name]
        assert getattr(read(**{key(field): value}), field.name) == wanted
        return
    if field.name in ("redirect_to", "envelope_from"):
        other: Any = "dev@example.com"
    else:
        other = {bool: not field.default, str: "other", tuple: ({},)}.get(type(field.default))
    if other is None:
        default = DEFAULTS[field.name]
        other = OnUnknown.HOLD if field.name == "on_unknown" else default * 2
    extra = {"OUTBOX_BATCH": 10_000} if field.name == "window" else {}
    assert getattr(read(**{key(field): other, **extra}), field.name) == other


WORDS = {
    bool: "True or False",
    float: "a number",
    int: "a whole number",
    str: "text",
    tuple: "a list",
}


@pytest.mark.matrix
@pytest.mark.parametrize("field", FIELDS, ids=key)
@pytest.mark.parametrize("value", ["maybe", 2, 1.5, True, None, [], b"x"], ids=repr)
def test_a_value_of_another_kind_is_refused_with_both_kinds(
    field: dataclasses.Field[Any], value: Any
) -> None:
    kind = kind_of(field)
    numbers = [2, 1.5] if field.name.endswith("retention") else []
    if value is None and field.default is None:
        assert read(**{key(field): value}) == Settings(), "it is left to the outbox"
    elif field.metadata["read"] is not None:
        if (field.name, value) not in (("previews", True), ("search", [])) and value not in numbers:
            must = "must be True or False, not " if field.name == "previews" else "must be a "
            assert refused(**{key(field): value}).startswith(f"{key(field)} {must}")
    elif field.name == "on_unknown":
        assert "must be one of resend, hold" in refused(**{key(field): value})
    elif type(value) is not kind and not (kind is float and type(value) is int):
        if kind is tuple and isinstance(value, list):
            return
        told = {str: "this text", type(None): "None: leave the key out for its default"}
        name = told.get(type(value), type(value).__name__)
        assert refused(**{key(field): value}) == f"{key(field)} must be {WORDS[kind]}, not {name}"


@pytest.mark.parametrize(
    ("name", "given", "read_as"),
    [
        ("SLOTS", "8", 8),
        ("SLOTS", " 8 ", 8),
        ("LEASE", "45", 45.0),
        ("LEASE", "45.5", 45.5),
        ("NUDGE", "false", False),
        ("NUDGE", "Off", False),
        ("NUDGE", "0", False),
        ("NUDGE", 0, False),
        ("CLEARTEXT_AUTH", "TRUE", True),
        ("CLEARTEXT_AUTH", "yes", True),
        ("CLEARTEXT_AUTH", 1, True),
    ],
)
def test_a_text_is_read_as_an_environment_gives_it(name: str, given: Any, read_as: Any) -> None:
    found = getattr(read(**{f"OUTBOX_{name}": given}), name.lower())
    assert (found, type(found)) == (read_as, type(read_as))


@pytest.mark.parametrize("text", ["", "8.0", "0x8", "1e1", "nan", "inf", "\u0668", "8 9", "--8"])
def test_a_text_that_is_no_whole_number_is_refused_without_being_told(text: str) -> None:
    assert refused(OUTBOX_SLOTS=text) == "OUTBOX_SLOTS must be a whole number, not this text"


def test_an_integer_serves_as_seconds() -> None:
    lease = read(OUTBOX_LEASE=60).lease
    assert lease == 60.0
    assert isinstance(lease, float)


@pytest.mark.parametrize("field", [f for f in NUMBERS if type(f.default) is float], ids=key)
def test_not_a_number_is_refused(field: dataclasses.Field[Any]) -> None:
    assert "must be at least" in refused(**{key(field): float("nan")})


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("OUTBOX_WINDOWS", "OUTBOX_WINDOW"),
        ("OUTBOX_LEESE", "OUTBOX_LEASE"),
        ("OUTBOX_MAX_ATTEMPT", "OUTBOX_MAX_ATTEMPTS"),
        ("OUTBOX_ON_UNKOWN", "OUTBOX_ON_UNKNOWN"),
        ("OUTBOX_TLS_VERFIY", "OUTBOX_TLS_VERIFY"),
    ],
)
def test_a_misspelt_key_is_refused_and_the_right_one_suggested(wrong: str, right: str) -> None:
    assert refused(**{wrong: 1}) == f"unknown setting {wrong}; did you mean {right}?"


def test_a_key_that_is_like_no_other_gets_no_suggestion() -> None:
    assert refused(OUTBOX_ZZZ=1) == "unknown setting OUTBOX_ZZZ"


def test_a_key_like_no_other_is_refused_without_a_suggestion() -> None:
    assert refused(OUTBOX_XYZZY_PLUGH_QUUX=1) == "unknown setting OUTBOX_XYZZY_PLUGH_QUUX"


def test_keys_are_case_sensitive_as_flask_s_are() -> None:
    assert read(outbox_window=1) == Settings()


@pytest.mark.parametrize("word", ["resend", "hold", OnUnknown.HOLD])
def test_on_unknown_is_a_word_or_a_member(word: Any) -> None:
    assert read(OUTBOX_ON_UNKNOWN=word).on_unknown is OnUnknown(word)


def test_a_window_fits_in_a_batch() -> None:
    assert "OUTBOX_WINDOW must not be greater" in refused(OUTBOX_WINDOW=10, OUTBOX_BATCH=9)
    assert read(OUTBOX_WINDOW=9, OUTBOX_BATCH=9).window == 9


def test_a_batch_s_ids_are_values_of_one_statement_on_every_database() -> None:
    assert refused(OUTBOX_BATCH=10_001) == "OUTBOX_BATCH must be at most 10000"
    assert read(OUTBOX_BATCH=10_000).batch == 10_000


def test_a_list_is_kept_so_that_nobody_can_change_it() -> None:
    assert read(OUTBOX_ROUTES=[]).routes == ()
    assert read(OUTBOX_ROUTES=[{"name": "a"}]).routes == ({"name": "a"},)


@pytest.mark.parametrize(
    "address", ["dev", "dev@", "a@x.example, b@x.example", "j\u00fc@x.example"]
)
def test_emails_are_redirected_to_one_address_that_every_server_takes(address: str) -> None:
    assert refused(OUTBOX_REDIRECT_TO=address) == (
        "OUTBOX_REDIRECT_TO must be one address, with a local part in ASCII"
    )


@pytest.mark.parametrize("name", ["redirect_to", "envelope_from"])
def test_an_international_domain_is_read_as_it_goes_on_the_wire(name: str) -> None:
    settings = read(**{f"OUTBOX_{name.upper()}": "shop@b\u00fccher.example"})
    assert getattr(settings, name) == "shop@xn--bcher-kva.example"


def test_the_servers_passwords_are_in_no_representation() -> None:
    settings = read(OUTBOX_SERVERS=[{"server": "mx.example", "password": "hunter2"}])
    assert "hunter2" not in f"{settings!r} {settings}"


def test_bulk_s_share_is_a_part_of_the_whole() -> None:
    assert refused(OUTBOX_BULK_SHARE=1.01) == "OUTBOX_BULK_SHARE must be at most 1"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().window = 1  # type: ignore[misc]


def test_the_dot_s_patience_is_what_rfc_5321_asks_for() -> None:
    assert Settings().dot_timeout >= 600
    assert Settings().command_timeout >= 300
    assert Settings().tls_verify
    assert not Settings().cleartext_auth
