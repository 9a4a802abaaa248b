"""Settings that are valid, and most likely not what was meant."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.domain.config.doubtful_settings import doubtful
from outbox.domain.config.servers import servers_from_config
from outbox.domain.config.settings import Settings


def told(**config: Any) -> list[str]:
    return doubtful(config, servers_from_config(config, Settings.from_config(config)))


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("MAIL_HOST", "MAIL_SERVER"),
        ("MAIL_SMTP_SERVER", "MAIL_SERVER"),
        ("MAIL_SERVERS", "MAIL_SERVER"),
        ("EMAIL_HOST", "MAIL_SERVER"),
        ("SMTP_HOST", "MAIL_SERVER"),
        ("SMTP_PORT", "MAIL_PORT"),
        ("MAIL_USER", "MAIL_USERNAME"),
        ("EMAIL_HOST_USER", "MAIL_USERNAME"),
        ("SMTP_USERNAME", "MAIL_USERNAME"),
        ("MAIL_PASS", "MAIL_PASSWORD"),
        ("EMAIL_HOST_PASSWORD", "MAIL_PASSWORD"),
        ("MAIL_USE_STARTTLS", "MAIL_USE_TLS"),
        ("MAIL_USE_TSL", "MAIL_USE_TLS"),
        ("EMAIL_USE_SSL", "MAIL_USE_SSL"),
        ("MAIL_FROM", "MAIL_DEFAULT_SENDER"),
        ("DEFAULT_FROM_EMAIL", "MAIL_DEFAULT_SENDER"),
        ("mail_server", "MAIL_SERVER"),
        ("outbox_slots", "OUTBOX_SLOTS"),
        ("MAIL_SUPPRESS", "MAIL_SUPPRESS_SEND"),
    ],
)
def test_a_key_that_is_almost_one_is_told_with_the_right_one(key: str, meant: str) -> None:
    [line] = doubtful({key: "x"}, ())
    assert line.startswith(f"{key} is not read; did you mean {meant}?")
    assert doubtful({key: "x", meant: "y"}, ()) == []
    assert doubtful({key: None}, ()) == doubtful({key: ""}, ()) == []


def test_keys_of_the_app_and_of_other_extensions_are_not_told() -> None:
    assert not told(
        MAIL_SUBJECT_PREFIX="[Shop]",
        MAIL_BACKEND="smtp",
        MAIL_TIMEOUT=5,
        MAIL_DEBUG=False,
        MAIL_SSL_KEYFILE="key.pem",
        MAILGUN_KEY="x",
        EMAIL_TEMPLATES="x",
        SMTP_ALLOWED="x",
        MAIL="x",
        HOST="x",
        slots=5,
    )


def test_beside_a_list_of_servers_the_servers_keys_are_not_told() -> None:
    servers = [{"server": "mx.example", "use_tls": True}]
    assert told(OUTBOX_SERVERS=servers, MAIL_HOST="x", MAIL_USER="x") == []
    assert told(OUTBOX_SERVERS=servers, MAIL_FROM="x")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"MAIL_PORT": 465}, "speaks TLS from the first octet"),
        ({"MAIL_PORT": 465, "MAIL_USE_TLS": True}, "speaks TLS from the first octet"),
        ({"MAIL_PORT": 465, "MAIL_USE_SSL": True}, None),
        ({"MAIL_PORT": 587, "MAIL_USE_SSL": True}, "begins in clear"),
        ({"MAIL_PORT": 25, "MAIL_USE_SSL": True}, "begins in clear"),
        ({"MAIL_PORT": 587, "MAIL_USE_TLS": True}, None),
        ({"MAIL_PORT": 2465, "MAIL_USE_SSL": True}, None),
        ({"MAIL_USE_TLS": True, "MAIL_USERNAME": "jo"}, "without a password"),
        ({"MAIL_PASSWORD": "hunter2"}, "without a user name"),
        ({"MAIL_USE_TLS": True, "MAIL_USERNAME": "jo", "MAIL_PASSWORD": "hunter2"}, None),
    ],
)
def test_what_contradicts_itself_is_told_without_a_secret(
    config: dict[str, Any], words: str | None
) -> None:
    lines = told(**config)
    assert "hunter2" not in str(lines)
    assert [words in line for line in lines if words] == [True] * (words is not None)
    assert len(lines) == (words is not None)
