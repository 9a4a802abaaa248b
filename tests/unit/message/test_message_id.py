"""The domain of a Message-ID: the sender's, or the one that is set; never a pod's name."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from email.message import EmailMessage
from email.utils import make_msgid
from typing import Any

import flask
import flask_mail
import pytest

from outbox.domain.config.settings import Settings
from outbox.domain.errors import ConfigurationError
from outbox.domain.message.personalize import message_ids
from outbox.domain.message.render import RenderedMessage, render
from outbox.flask_ext.messages import fast_path, message_id
from outbox.flask_ext.messages.convert import standard

LIMITS: dict[str, Any] = {"max_size": 10**7, "split_size": 10**7}


@pytest.fixture(autouse=True, params=["localhost", "worker-7f9c-x2.pods.local", "b"])
def host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the host that the web process runs on."""
    monkeypatch.setattr(socket, "getfqdn", lambda _name="": request.param)
    message_id.forget_host()
    yield request.param
    message_id.forget_host()


@pytest.fixture(autouse=True)
def app() -> Iterator[flask.Flask]:
    app = flask.Flask("test")
    flask_mail.Mail(app)
    with app.app_context():
        yield app


def make(given: str | None = None, sender: Any = "Shop <shop@Shop.Example>") -> flask_mail.Message:
    message = flask_mail.Message("s", sender=sender, recipients=["c@d.example"], body="b")
    if given is not None:
        message.msgId = given
    return message


def both(message: flask_mail.Message, domain: str = "") -> RenderedMessage:
    """Return what the two ways make of it: the same."""
    long = render(standard(message, id_domain=domain), send_at=None, **LIMITS)
    short = fast_path.render_fast(message, send_at=None, id_domain=domain, **LIMITS)
    assert short is not None
    assert short.message_id == long.message_id
    assert f"Message-ID: {short.message_id}\r\n".encode() in short.content
    return long


def test_what_flask_mail_made_of_the_host_s_name_takes_the_sender_s_domain(host: str) -> None:
    message = make()
    own = str(message.msgId)
    assert own.endswith(f"@{host}>")
    assert both(message).message_id == own.replace(f"@{host}>", "@shop.example>")
    assert both(message).message_id == both(message).message_id
    assert message.msgId == own


def test_what_the_user_gave_is_kept() -> None:
    for given in ("<order-7@pods.local>", make_msgid(domain="shop.example"), "<1.2.a@localhost>"):
        assert both(make(given)).message_id == given


@pytest.mark.parametrize("sender", ["a@bücher.example", "a@[127.0.0.1]"])
def test_a_domain_that_is_no_host_s_name_makes_a_valid_one(sender: str) -> None:
    mail = render(standard(make(sender=sender)), send_at=None, **LIMITS)
    assert mail.message_id.endswith(("@xn--bcher-kva.example>", "@127.0.0.1>"))


def test_the_domain_that_is_set_is_that_of_every_message_id() -> None:
    domain = "id.shop.example"
    assert both(make(), domain).message_id.endswith(f"@{domain}>")
    message = EmailMessage()
    message["From"], message["To"] = "a@b.example", "c@d.example"
    mail = render(message, send_at=None, id_domain=domain, **LIMITS)
    assert mail.message_id.endswith(f"@{domain}>")
    assert next(message_ids("a@b.example", domain)).endswith(f"@{domain}>")
    assert next(message_ids("a@b.example")).endswith("@b.example>")


def test_the_setting_is_a_domain_in_ascii() -> None:
    read = Settings.from_config({"OUTBOX_MESSAGE_ID_DOMAIN": "Id.Bücher.example"})
    assert read.message_id_domain == "id.xn--bcher-kva.example"
    assert Settings.from_config({}).message_id_domain == ""
    for wrong in (
        "a b",
        "x@y.example",
        "a>\r\nBcc: e@x.example",
        5,
        "x" * 300,
        ".".join(["x" * 60] * 3),
        "localhost",
        "[127.0.0.1]",
    ):
        with pytest.raises(ConfigurationError, match="OUTBOX_MESSAGE_ID_DOMAIN"):
            Settings.from_config({"OUTBOX_MESSAGE_ID_DOMAIN": wrong})
