"""Flask-Mailman's own SMTP backend in an app with an outbox: all that works as ever.

`test_mailman_doors.py` shows that it sends no message. Each test runs in an app with an outbox and
in one without, and nothing in it asks which of the two it has.
"""

from __future__ import annotations

import io
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from smtplib import SMTPNotSupportedError
from typing import Any
from unittest.mock import Mock

import flask_mailman
import pytest
from flask_mailman.backends import console, file, locmem, smtp

from tests.integration.dropin.conftest import plain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shops

pytestmark = pytest.mark.databases("sqlite")

SETTINGS: dict[str, Any] = {
    "MAIL_USERNAME": "shop",
    "MAIL_PASSWORD": "secret",
    "MAIL_TIMEOUT": 9,
    "MAIL_USE_SSL": True,
    "MAIL_SSL_KEYFILE": "key",
    "MAIL_SSL_CERTFILE": "cert",
    "MAIL_FILE_PATH": "mails",
}
OPTIONS: dict[str, Any] = {
    "host": "elsewhere.example",
    "port": 26,
    "username": "",
    "password": "",
    "timeout": 1,
    "use_tls": True,
    "use_ssl": False,
    "ssl_keyfile": "other key",
    "ssl_certfile": "other cert",
}


@pytest.fixture(params=[True, False], ids=["outbox", "plain"])
def mail(
    request: pytest.FixtureRequest, shops: Shops, catcher: Catcher
) -> Iterator[flask_mailman.Mail]:
    """Flask-Mailman's `Mail` in a context of its app."""
    made = shops.open_flask if request.param else plain
    found = made(MAIL_PORT=catcher.port, MAIL_DEFAULT_SENDER="shop@shop.example")
    app = found[0].app if isinstance(found, tuple) else found
    with app.app_context():
        yield flask_mailman.Mail(app)


def message(*to: str) -> flask_mailman.EmailMessage:
    return flask_mailman.EmailMessage("Order 1", "Thanks.", "shop@shop.example", list(to))


def test_it_takes_what_it_is_not_given_from_the_app(mail: flask_mailman.Mail) -> None:
    mail.app.config.update(SETTINGS)
    flask_mailman.Mail(mail.app)
    backend = smtp.EmailBackend()
    port = mail.app.config["MAIL_PORT"]
    assert (backend.host, backend.port, backend.connection) == ("127.0.0.1", port, None)
    assert (backend.username, backend.password) == ("shop", "secret")
    assert (backend.timeout, backend.use_tls, backend.use_ssl) == (9, False, True)
    assert (backend.ssl_keyfile, backend.ssl_certfile) == ("key", "cert")


@pytest.mark.parametrize("option", OPTIONS)
def test_it_takes_what_it_is_given(mail: flask_mailman.Mail, option: str) -> None:
    if option != "use_tls":  # Flask-Mailman takes one of the two
        mail.app.config.update(SETTINGS)
    flask_mailman.Mail(mail.app)
    for backend in (
        smtp.EmailBackend(**{option: OPTIONS[option]}),
        mail.get_connection("smtp", **{option: OPTIONS[option]}),
    ):
        assert getattr(backend, option) == OPTIONS[option]


def test_it_takes_tls_or_ssl_and_not_both(mail: flask_mailman.Mail) -> None:
    with pytest.raises(ValueError, match="mutually exclusive"):
        smtp.EmailBackend(use_ssl=True, use_tls=True)


def test_what_is_set_in_the_state_is_read_from_then_on(mail: flask_mailman.Mail) -> None:
    state = mail.app.extensions["mailman"]
    assert vars(state) == vars(mail.init_mail(mail.app.config))
    changes = {"server": "mx.example", "port": 26, "ssl_keyfile": "key", "ssl_certfile": "cert"}
    for name, value in changes.items():
        setattr(state, name, value)
        assert getattr(mail, name) == getattr(state, name) == value
    backend = smtp.EmailBackend()
    assert (backend.host, backend.port) == ("mx.example", 26)
    assert (backend.ssl_keyfile, backend.ssl_certfile) == ("key", "cert")


def test_it_opens_a_connection_once_and_closes_it(
    mail: flask_mailman.Mail, catcher: Catcher
) -> None:
    backend = mail.get_connection("smtp", timeout=9)
    backend.close()
    assert [backend.open(), backend.open()] == [True, False]
    assert backend.connection.timeout == 9
    assert backend.connection.noop()[0] == 250
    backend.close()
    assert backend.connection is None
    assert (catcher.sessions, catcher.quits) == (1, 1)


def test_a_connection_can_be_looked_at_however_often(mail: flask_mailman.Mail) -> None:
    with smtp.EmailBackend() as backend:
        seen = {backend.connection for _ in range(2 * sys.getrecursionlimit())}
        assert seen == {backend.connection}
        assert backend.connection.noop()[0] == 250


def test_it_can_be_mocked(mail: flask_mailman.Mail) -> None:
    mock = Mock(spec=smtp.EmailBackend)
    mock.send_messages.return_value = 1
    assert mail.send_mail("x", "y", recipient_list=["a@x.example"], connection=mock) == 1


def test_it_opens_no_connection_in_the_place_of_another(mail: flask_mailman.Mail) -> None:
    backend = smtp.EmailBackend()
    backend.connection = connection = Mock(spec=object())
    assert backend.open() is False
    assert backend.connection is connection


@pytest.mark.parametrize(
    "options", [{"use_tls": True}, {"username": "a", "password": "b"}], ids=str
)
def test_it_logs_in_and_encrypts_where_the_server_lets_it(
    mail: flask_mailman.Mail, options: dict[str, Any]
) -> None:
    with pytest.raises(SMTPNotSupportedError), smtp.EmailBackend(**options):
        pass


def test_it_reads_the_certificate(mail: flask_mailman.Mail) -> None:
    this = str(Path(__file__))
    backend = smtp.EmailBackend(use_ssl=True, ssl_certfile=this, ssl_keyfile=this)
    with pytest.raises(ssl.SSLError), backend:
        pass


def test_a_server_that_is_away_is_told_of_or_silenced(mail: flask_mailman.Mail) -> None:
    with pytest.raises(ConnectionError):
        smtp.EmailBackend(port=1).open()
    assert smtp.EmailBackend(port=1, fail_silently=True).open() is None


def test_nothing_to_send_is_nothing_refused(mail: flask_mailman.Mail, catcher: Catcher) -> None:
    with smtp.EmailBackend() as backend:
        for nothing in ([], None, [message()]):
            assert backend.send_messages(nothing) == 0
    assert message().send() == 0
    assert catcher.emails == ()


def test_a_backend_of_another_name_does_what_it_did(
    mail: flask_mailman.Mail, tmp_path: Path, catcher: Catcher
) -> None:
    stream, folder, email = io.StringIO(), tmp_path / "mails", message("a@x.example")
    assert mail.get_connection(console.EmailBackend, stream=stream).send_messages([email]) == 1
    assert mail.get_connection("file", file_path=folder).send_messages([email]) == 1
    for name in ("flask_mailman.backends.locmem", "flask_mailman.backends.locmem.EmailBackend"):
        assert mail.get_connection(name).send_messages([email]) == 1
    assert locmem.EmailBackend().send_messages([email]) == 1
    (written,) = folder.iterdir()
    assert "To: a@x.example\n" in stream.getvalue()
    assert "To: a@x.example\n" in written.read_text()
    assert mail.outbox == [email] * 3
    assert catcher.sessions == 0


def test_the_file_backend_writes_a_file_for_each_connection(
    mail: flask_mailman.Mail, tmp_path: Path
) -> None:
    mail.state.file_path = tmp_path
    with mail.get_connection("file") as first, file.EmailBackend() as second:
        for backend in (first, first, second):
            backend.send_messages([message("a@x.example")])
    assert len(list(tmp_path.iterdir())) == 2
