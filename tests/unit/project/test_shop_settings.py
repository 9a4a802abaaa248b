"""What the shop reads from its environment, and what `make .env` writes."""

from __future__ import annotations

import re
import subprocess
from email.utils import parseaddr
from pathlib import Path

import pytest
from flask_mail import Message
from sqlalchemy import make_url

from outbox.domain.config.doubtful_values import of_values
from outbox.domain.config.settings import Settings
from outbox.flask_ext.messages.convert import standard
from webapp.config import SENDER, from_environment

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {"SECRET_KEY": "k", "DATABASE_URL": "postgresql://shop@postgres/shop"}


def database(**given: str) -> str:
    uri: str = from_environment(ENVIRONMENT | given)["SQLALCHEMY_DATABASE_URI"]
    return uri


@pytest.mark.parametrize("password", ["p@ss", "a:b/c?d#e", "100%", "ü€", "%40"])
def test_a_password_may_have_any_character(password: str) -> None:
    url = make_url(database(DATABASE_PASSWORD=password))
    assert (url.username, url.password, url.host, url.database) == (
        "shop",
        password,
        "postgres",
        "shop",
    )
    assert url.drivername == "postgresql+psycopg"


def test_without_a_password_the_url_is_taken_as_it_is() -> None:
    assert database() == database(DATABASE_PASSWORD="")
    assert database() == "postgresql+psycopg://shop@postgres/shop"


def test_what_the_database_s_url_says_counts() -> None:
    url = {"DATABASE_URL": "postgresql://shop@postgres/shop?connect_timeout=30"}
    options = from_environment(ENVIRONMENT | url)["SQLALCHEMY_ENGINE_OPTIONS"]
    assert "connect_timeout" not in options["connect_args"]
    assert options["connect_args"]["tcp_user_timeout"]
    for other in ("sqlite://", "postgresql+pg8000://shop@postgres/shop"):
        options = from_environment(ENVIRONMENT | {"DATABASE_URL": other})
        assert "connect_args" not in options["SQLALCHEMY_ENGINE_OPTIONS"]


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from the file\n")
    config = from_environment(
        {"DATABASE_URL": "sqlite://", "SECRET_KEY_FILE": str(tmp_path / "key")}
    )
    assert config["SECRET_KEY"] == "from the file"


def test_a_secret_that_is_set_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("sqlite:///real.db")
    given = ENVIRONMENT | {"DATABASE_URL_FILE": str(tmp_path / "url")}
    with pytest.raises(RuntimeError, match="both DATABASE_URL and DATABASE_URL_FILE are set"):
        from_environment(given)
    config = from_environment(given | {"DATABASE_URL": ""})
    assert config["SQLALCHEMY_DATABASE_URI"] == "sqlite:///real.db"


def test_each_setting_of_the_outbox_is_read() -> None:
    given = {"OUTBOX_RATE": "50/s", "OUTBOX_LEASE": "60", "OUTBOX_INSTANCE": ""}
    config = from_environment(ENVIRONMENT | given)
    ours = {name: value for name, value in config.items() if name.startswith("OUTBOX_")}
    assert ours == {"OUTBOX_RATE": "50/s", "OUTBOX_LEASE": "60"}
    assert Settings.from_config(config).lease == 60


def test_the_sender_is_the_shop_s_own_or_one_that_the_relay_takes() -> None:
    assert from_environment(ENVIRONMENT)["MAIL_DEFAULT_SENDER"] == ("Foolscap", SENDER)
    given = {"MAIL_DEFAULT_SENDER": "post@shop.example", "MAIL_USE_SSL": "1"}
    config = from_environment(ENVIRONMENT | given)
    assert config["MAIL_DEFAULT_SENDER"] == ("Foolscap", "post@shop.example")
    assert (config["MAIL_USE_SSL"], config["MAIL_USE_TLS"]) == (True, False)


@pytest.mark.parametrize("sender", ["Shop <shop@shop.example>", "Ink, Inc. <shop@shop.example>"])
def test_the_sender_may_have_a_name_of_its_own(sender: str) -> None:
    config = from_environment(ENVIRONMENT | {"MAIL_DEFAULT_SENDER": sender})
    message = Message(
        "s", recipients=["ada@example.com"], body="b", sender=config["MAIL_DEFAULT_SENDER"]
    )
    written = parseaddr(str(standard(message)["From"]))
    assert written == (sender.partition(" <")[0], "shop@shop.example")
    assert not list(of_values(config["MAIL_DEFAULT_SENDER"], Settings()))


@pytest.mark.parametrize("name", ["MAIL_PORT", "PROXIES"])
def test_a_number_that_is_none_is_refused_by_its_name(name: str) -> None:
    assert from_environment(ENVIRONMENT | {name: ""}) == from_environment(ENVIRONMENT)
    assert from_environment(ENVIRONMENT | {name: "2"})[name] == 2
    for odd in ("many", "-1", "1.5"):
        with pytest.raises(RuntimeError, match=f"{name} must be a whole number"):
            from_environment(ENVIRONMENT | {name: odd})


def test_a_token_that_is_too_short_is_refused_at_the_start() -> None:
    with pytest.raises(RuntimeError, match=r"METRICS_TOKEN: .* must have 16 characters or more"):
        from_environment(ENVIRONMENT | {"METRICS_TOKEN": "short"})


def test_the_public_address_follows_the_port() -> None:
    assert from_environment(ENVIRONMENT)["PUBLIC_URL"] == "http://localhost:5000"
    assert from_environment(ENVIRONMENT | {"PORT": "8001", "PUBLIC_URL": ""})["PUBLIC_URL"] == (
        "http://localhost:8001"
    )
    given = {"PORT": "8001", "PUBLIC_URL": "https://shop.example/"}
    assert from_environment(ENVIRONMENT | given)["PUBLIC_URL"] == "https://shop.example"


def test_the_secrets_are_made_once(tmp_path: Path) -> None:
    """A second `.env` would lock the shop out of the database that has the first one's password."""
    command = ["make", "--no-print-directory", "--file", str(ROOT / "Makefile"), ".env"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    made = (tmp_path / ".env").read_text()
    secrets = dict(re.findall(r"^(\w+)=([0-9a-f]{48})$", made, re.MULTILINE))
    asked = set(re.findall(r"\$\{(\w+):\?", (ROOT / "compose.yaml").read_text()))
    assert set(secrets) == asked
    assert len(set(secrets.values())) == len(secrets)
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / ".env").read_text() == made


def test_the_secrets_never_enter_git() -> None:
    assert ".env" in (ROOT / ".gitignore").read_text().split()
