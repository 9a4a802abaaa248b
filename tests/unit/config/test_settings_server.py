"""One SMTP server, from Flask-Mail's settings and ours."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.domain.config.servers import ServerSettings
from outbox.domain.config.settings import Settings
from outbox.domain.errors import ConfigurationError


def read(**config: Any) -> ServerSettings:
    return ServerSettings.from_config(config, Settings.from_config(config))


def refused(**config: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(**config)
    return str(caught.value)


def test_without_settings_it_is_this_host_in_clear() -> None:
    server = read()
    assert (server.host, server.port, server.security) == ("127.0.0.1", 25, "none")
    assert (server.username, server.password) == (None, None)
    assert server.name == "127.0.0.1:25"


@pytest.mark.parametrize(
    ("config", "port", "security"),
    [
        ({"MAIL_USE_TLS": True}, 587, "starttls"),
        ({"MAIL_USE_SSL": True}, 465, "tls"),
        ({"MAIL_USE_TLS": False, "MAIL_USE_SSL": False}, 25, "none"),
        ({"MAIL_USE_TLS": True, "MAIL_PORT": 25}, 25, "starttls"),
        ({"MAIL_USE_SSL": True, "MAIL_PORT": 2465}, 2465, "tls"),
        ({"MAIL_USE_TLS": True, "MAIL_PORT": None}, 587, "starttls"),
        ({"MAIL_PORT": 1}, 1, "none"),
        ({"MAIL_PORT": 65535}, 65535, "none"),
    ],
)
def test_the_port_follows_the_security_where_none_is_given(
    config: dict[str, Any], port: int, security: str
) -> None:
    server = read(**config)
    assert (server.port, server.security) == (port, security)


def test_starttls_and_tls_exclude_each_other() -> None:
    assert "exclude each other" in refused(MAIL_USE_TLS=True, MAIL_USE_SSL=True)


@pytest.mark.parametrize("port", ["25", 25, " 25"])
def test_a_port_may_be_a_text(port: Any) -> None:
    assert read(MAIL_PORT=port).port == 25


@pytest.mark.parametrize("port", ["smtp", 25.0, True, [25]])
def test_a_port_is_a_whole_number(port: Any) -> None:
    assert refused(MAIL_PORT=port).startswith("MAIL_PORT must be a whole number, not ")


@pytest.mark.parametrize("port", [-1, 65536, "65536"])
def test_a_port_is_a_number_in_its_range(port: Any) -> None:
    assert refused(MAIL_PORT=port) == "MAIL_PORT must be a number from 1 to 65535"


@pytest.mark.parametrize("text", ["false", "False", "0", "no", "off", ""])
def test_a_text_that_says_no_does_not_turn_tls_on(text: str) -> None:
    """Python, and so Flask-Mail, takes every text for true that is not empty."""
    assert read(MAIL_USE_TLS=text, MAIL_USE_SSL="true").security == "tls"


@pytest.mark.parametrize("value", ["maybe", 2, [True]])
def test_what_is_neither_true_nor_false_is_refused(value: Any) -> None:
    assert refused(MAIL_USE_TLS=value).startswith("MAIL_USE_TLS must be True or False, not ")


@pytest.mark.parametrize(
    ("most", "emails"), [(None, 1000), (0, 1000), (1, 1), (999, 999), (1001, 1000)]
)
def test_flask_mail_s_emails_a_connection_can_only_lower_ours(
    most: int | None, emails: int
) -> None:
    assert read(MAIL_MAX_EMAILS=most).connection_emails == emails
    assert read(MAIL_MAX_EMAILS=most, OUTBOX_CONNECTION_EMAILS=1).connection_emails == 1


@pytest.mark.parametrize("most", ["five", 2.5, True, -1, "-1"])
def test_flask_mail_s_emails_a_connection_are_a_number(most: Any) -> None:
    assert refused(MAIL_MAX_EMAILS=most) == "MAIL_MAX_EMAILS must be a whole number of at least 1"


@pytest.mark.parametrize("empty", [None, ""])
def test_empty_names_are_none(empty: Any) -> None:
    server = read(MAIL_SERVER=empty, MAIL_USERNAME=empty, MAIL_PASSWORD=empty)
    assert (server.host, server.username, server.password) == ("127.0.0.1", None, None)


def test_credentials_in_clear_are_refused_unless_the_user_says_so() -> None:
    text = refused(MAIL_USERNAME="jo", MAIL_PASSWORD="hunter2")
    assert "OUTBOX_CLEARTEXT_AUTH" in text
    assert "hunter2" not in text
    server = read(MAIL_USERNAME="jo", MAIL_PASSWORD="hunter2", OUTBOX_CLEARTEXT_AUTH=True)
    assert (server.username, server.password, server.cleartext_auth) == ("jo", "hunter2", True)


@pytest.mark.parametrize("secured", ["MAIL_USE_TLS", "MAIL_USE_SSL"])
def test_credentials_pass_where_the_connection_is_encrypted(secured: str) -> None:
    assert read(**{secured: True}, MAIL_USERNAME="jo", MAIL_PASSWORD="x").username == "jo"


def test_the_password_is_in_no_representation() -> None:
    server = read(MAIL_USE_TLS=True, MAIL_USERNAME="jo", MAIL_PASSWORD="hunter2")
    assert "hunter2" not in f"{server!r} {server}"


def test_time_outs_and_tls_come_from_our_settings() -> None:
    server = read(
        OUTBOX_CONNECT_TIMEOUT=1,
        OUTBOX_COMMAND_TIMEOUT=2,
        OUTBOX_DOT_TIMEOUT=3,
        OUTBOX_CONNECTION_EMAILS=4,
        OUTBOX_CONNECTION_SECONDS=5,
        OUTBOX_TLS_VERIFY=False,
        OUTBOX_TLS_CA_FILE="ca.pem",
        OUTBOX_HELO_NAME="mx.example",
    )
    assert (server.connect_timeout, server.command_timeout, server.dot_timeout) == (1, 2, 3)
    assert (server.connection_emails, server.connection_seconds) == (4, 5)
    assert (server.tls_verify, server.tls_ca_file, server.helo_name) == (
        False,
        "ca.pem",
        "mx.example",
    )


def test_the_name_tells_servers_apart_by_host_and_port() -> None:
    assert read(MAIL_SERVER="mx.example", MAIL_PORT=26).name == "mx.example:26"
