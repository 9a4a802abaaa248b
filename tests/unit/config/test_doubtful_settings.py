"""Settings that are valid, and most likely not what was meant."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.domain.config.doubtful_settings import doubtful
from outbox.domain.config.servers import servers_from_config
from outbox.domain.config.settings import Settings


def told(**config: Any) -> list[str]:
    settings = Settings.from_config(config)
    return doubtful(config, servers_from_config(config, settings), settings)


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
        ("OUBOX_LEASE", "OUTBOX_LEASE"),
        ("OUTOBX_LEASE", "OUTBOX_LEASE"),
        ("OUTBOXS_MAX_ATTEMPTS", "OUTBOX_MAX_ATTEMPTS"),
        ("MAIL_OUTBOX_RATE", "OUTBOX_RATE"),
        ("flask_outbox_rate", "OUTBOX_RATE"),
    ],
)
def test_a_key_that_is_almost_one_is_told_with_the_right_one(key: str, meant: str) -> None:
    [line] = doubtful({key: "x"}, (), Settings())
    assert line.startswith(f"{key} is not read; did you mean {meant}?")
    assert doubtful({key: "x", meant: "y@x.example"}, (), Settings()) == []
    assert doubtful({key: None}, (), Settings()) == doubtful({key: ""}, (), Settings()) == []


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
        INBOX_RATE="x",
        MAILBOX_LEASE="x",
        OUTBOXY_COLOUR="x",
        SHOP_RATE="x",
        MYOUTBOX_RATE="x",
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


TWO = [{"server": "mx.example", "use_tls": True}, {"server": "b.example:587", "use_tls": True}]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"MAIL_SERVER": "smtp://mx.example:587"}, "is no host name"),
        ({"MAIL_SERVER": "mx.example:587"}, "is no host name"),
        ({"MAIL_SERVER": " mx.example"}, "is no host name"),
        ({"MAIL_SERVER": '"mx.example"'}, "is no host name"),
        ({"OUTBOX_SERVERS": TWO}, "b.example:587:587: MAIL_SERVER (server) is no host name"),
        ({"MAIL_SERVER": "mx-1.shop.example."}, None),
        ({"MAIL_SERVER": "mail_relay"}, None),
        ({"MAIL_SERVER": "10.0.0.1"}, None),
        ({"MAIL_SERVER": "::1"}, None),
        ({"MAIL_SERVER": "fe80::1%eth0"}, None),
        ({"MAIL_SERVER": "bücher.example"}, None),
        ({"MAIL_PASSWORD": "hunter2\n", "MAIL_USERNAME": "jo"}, "the password begins or ends"),
        ({"MAIL_PASSWORD": "hunter2", "MAIL_USERNAME": " jo"}, "the user name begins or ends"),
        ({"MAIL_DEFAULT_SENDER": "shop"}, "MAIL_DEFAULT_SENDER is no address"),
        ({"MAIL_DEFAULT_SENDER": "('Shop', 'shop@b.example')"}, "is no address"),
        ({"MAIL_DEFAULT_SENDER": '"shop@b.example"'}, "is no address"),
        ({"MAIL_DEFAULT_SENDER": ["Shop", "shop@b.example"]}, "is no address"),
        ({"MAIL_DEFAULT_SENDER": ("shop@b.example",)}, "is no address"),
        ({"MAIL_DEFAULT_SENDER": "a@b.example, c@b.example"}, "is no address"),
        ({"MAIL_DEFAULT_SENDER": ("Shop", "Ink <shop@b.example>")}, "is no address"),
        ({"MAIL_DEFAULT_SENDER": ("Shop", " shop@b.example")}, "is no address"),
        ({"MAIL_DEFAULT_SENDER": "shop@b.example"}, None),
        ({"MAIL_DEFAULT_SENDER": ("Shop", "shop@bücher.example")}, None),
        ({"MAIL_DEFAULT_SENDER": ("Shop", "shop@b.example")}, None),
        ({"MAIL_DEFAULT_SENDER": "Ink, Inc. <shop@b.example>"}, None),
        ({"MAIL_DEFAULT_SENDER": "shop@b.example (Shop)"}, None),
        ({"MAIL_DEFAULT_SENDER": "shop@bücher.example"}, None),
        ({"MAIL_DEFAULT_SENDER": ""}, None),
        ({"OUTBOX_RETENTION": 30}, "OUTBOX_RETENTION counts seconds"),
        ({"OUTBOX_RETENTION": "365"}, "OUTBOX_RETENTION counts seconds"),
        ({"OUTBOX_RETENTION": {"failed": 90}}, "OUTBOX_RETENTION counts seconds"),
        ({"OUTBOX_BODY_RETENTION": 7}, "OUTBOX_BODY_RETENTION counts seconds"),
        ({"OUTBOX_RETENTION": 0, "OUTBOX_BODY_RETENTION": 0}, None),
        ({"OUTBOX_RETENTION": 86_400, "OUTBOX_BODY_RETENTION": 3600}, None),
        ({"OUTBOX_LEASE": 30_000}, "OUTBOX_LEASE counts seconds"),
        ({"OUTBOX_LEASE": 600}, None),
    ],
)
def test_a_value_that_was_copied_wrong_or_has_another_unit_is_told(
    config: dict[str, Any], words: str | None
) -> None:
    lines = told(MAIL_USE_TLS=True, **config)
    assert "hunter2" not in str(lines)
    assert [words in line for line in lines if words] == [True] * (words is not None)
    assert len(lines) == (words is not None), lines
