"""Several SMTP servers: `OUTBOX_SERVERS`, checked entry by entry."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.domain.config.servers import ServerSettings, servers_from_config
from outbox.domain.config.settings import Settings
from outbox.domain.errors import ConfigurationError
from outbox.domain.scheduling.token_bucket import Rate


def read(*entries: Any, **config: Any) -> tuple[ServerSettings, ...]:
    if entries:
        config["OUTBOX_SERVERS"] = list(entries)
    return servers_from_config(config, Settings.from_config(config))


def refused(*entries: Any, **config: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(*entries, **config)
    return str(caught.value)


def test_without_a_list_there_is_the_one_server_of_flask_mail() -> None:
    (server,) = read(MAIL_SERVER="mx.example", MAIL_PORT=26)
    assert (server.name, server.rate, server.connections) == ("mx.example:26", None, None)
    (server,) = read(MAIL_SERVER="mx.example", MAIL_PORT=26, OUTBOX_SERVERS=[])
    assert server.name == "mx.example:26"


def test_every_key_of_an_entry_is_read() -> None:
    (server,) = read(
        {
            "name": "ses",
            "server": "email.example",
            "port": 2587,
            "username": "jo",
            "password": "hunter2",
            "use_tls": True,
            "rate": "14/s",
            "connections": 10,
            "order": 2,
            "weight": 3,
        },
        MAIL_SERVER="not.this.example",
        OUTBOX_HELO_NAME="shop.example",
    )
    assert (server.name, server.host, server.port) == ("ses", "email.example", 2587)
    assert (server.username, server.password, server.security) == ("jo", "hunter2", "starttls")
    assert (server.rate, server.connections) == (Rate(14, 1), 10)
    assert (server.order, server.weight) == (2, 3)
    assert server.helo_name == "shop.example"  # what is not the server's own is shared


def test_a_server_without_a_name_is_called_by_host_and_port() -> None:
    assert [s.name for s in read({"server": "a.example"}, {"server": "b.example", "port": 26})] == [
        "a.example:25",
        "b.example:26",
    ]


def test_none_in_an_entry_is_as_if_the_key_were_not_there() -> None:
    (server,) = read({"server": "a.example", "connections": None, "order": None, "weight": None})
    assert (server.connections, server.order, server.weight) == (None, 1, 1)


def test_servers_stand_in_their_order() -> None:
    servers = read(
        {"server": "c.example", "order": 2}, {"server": "a.example"}, {"server": "b.example"}
    )
    assert [server.host for server in servers] == ["a.example", "b.example", "c.example"]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"server": "a", "pasword": "x"}, "did you mean password?"),
        ({"server": "a", "xyzzy": 1}, "unknown key 'xyzzy' in OUTBOX_SERVERS[0]"),
        ({"server": "a", "port": "smtp"}, "OUTBOX_SERVERS[0]['port'] must be a whole number"),
        ({"server": "a", "port": True}, "OUTBOX_SERVERS[0]['port'] must be a whole number"),
        ({"server": "a", "use_tls": "maybe"}, "['use_tls'] must be True or False, not this text"),
        ({"server": "a", "port": 70000}, "['port'] must be a number from 1 to 65535"),
        ({"server": "a", "weight": "much"}, "['weight'] must be a number"),
        ({"server": "a", "weight": 0}, "['weight'] must be greater than 0"),
        ({"server": "a", "weight": float("nan")}, "['weight'] must be greater than 0"),
        ({"server": "a", "weight": float("inf")}, "['weight'] must be greater than 0"),
        ({"server": "a", "connections": 0}, "['connections'] must be greater than 0"),
        ({"server": "a", "rate": 14}, "['rate'] must be text, not int"),
        ({"server": "a", "use_tls": True, "use_ssl": True}, "exclude each other"),
        ({"name": "ses"}, "OUTBOX_SERVERS[0]['server'] is missing"),
        ({"server": "a", "name": "two words"}, "['name'] must be 1 to 100 letters"),
        ({"server": "a", "name": "x" * 101}, "['name'] must be 1 to 100 letters"),
        ("a", "OUTBOX_SERVERS[0] must be dict, not str"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place_and_the_rule(entry: Any, told: str) -> None:
    assert told in refused(entry)


def test_the_values_of_an_entry_may_be_texts_as_those_of_mail_settings() -> None:
    entry = {"server": "a", "port": "2525", "use_tls": "true", "use_ssl": "", "weight": "0.5"}
    [server] = read(entry | {"connections": "4", "order": "2"})
    assert (server.port, server.security, server.weight) == (2525, "starttls", 0.5)
    assert (server.connections, server.order) == (4, 2)


def test_a_name_belongs_to_one_server() -> None:
    text = refused({"server": "a", "name": "x"}, {"server": "b", "name": "x"})
    assert text == "OUTBOX_SERVERS has two servers with the name x"
    assert "two servers" in refused({"server": "a"}, {"server": "a", "port": 25})


def test_credentials_in_clear_are_refused_unless_the_user_says_so() -> None:
    entry = {"server": "a", "username": "jo", "password": "hunter2"}
    text = refused({"server": "b"}, entry)
    assert "OUTBOX_SERVERS[1]['username']" in text
    assert "OUTBOX_CLEARTEXT_AUTH" in text
    assert "hunter2" not in text
    assert read(entry, OUTBOX_CLEARTEXT_AUTH=True)[0].username == "jo"
    assert read(entry | {"use_ssl": True})[0].security == "tls"


def test_a_password_is_in_no_representation_and_no_error() -> None:
    entry = {"server": "a", "username": "jo", "password": "hunter2", "use_tls": True}
    assert "hunter2" not in repr(read(entry))
    assert "hunter2" not in refused(entry, entry)
    assert "hunter2" not in refused(entry | {"wieght": 1})
    assert "hunter2" not in refused(entry | {"password": ["hunter2"]})
