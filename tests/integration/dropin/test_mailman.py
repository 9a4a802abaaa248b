"""`outbox.mailman.EmailBackend`: what it counts, commits, hides and leaves to others."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import flask_mailman
import pytest
from flask_mailman.backends import smtp
from flask_mailman.backends.base import BaseEmailBackend
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import event, select

from outbox import InvalidMessage
from outbox.mailman import EmailBackend
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("sqlite")

Opened = tuple[Shop, SQLAlchemy]


@pytest.fixture
def opened(shops: Shops, catcher: Catcher) -> Opened:
    settings = {"MAIL_PORT": catcher.port, "MAIL_DEFAULT_SENDER": "shop@shop.example"}
    shop, db = shops.open_flask(**settings, MAIL_BACKEND="outbox.mailman")
    flask_mailman.Mail(shop.app)
    return shop, db


def message(*to: str, **options: Any) -> flask_mailman.EmailMessage:
    return flask_mailman.EmailMessage("Order 1", "Thanks.", to=list(to), **options)


def arrived(opened: Opened, catcher: Catcher) -> CaughtMail:
    drain(opened[0].runtime)
    (mail,) = catcher.emails
    return mail


def test_a_batch_is_counted_and_committed_once(opened: Opened) -> None:
    shop, db = opened
    commits: list[object] = []
    event.listen(db.session, "after_commit", commits.append)
    with shop.app.app_context():
        db.session.execute(select(shop.orders)).all()
        batch = [message("a@x.example"), message(), message("b@x.example")]
        assert EmailBackend().send_messages(batch) == 2
        assert EmailBackend().send_messages(batch[1:2]) == 0
        assert EmailBackend().send_messages([]) == EmailBackend().send_messages(None) == 0
        assert message().send() == 0
    assert shop.statuses() == ["pending"] * 2
    assert len(commits) == 1


def test_an_error_in_a_batch_commits_nothing(opened: Opened) -> None:
    shop, _ = opened
    with shop.app.app_context():
        batch = [message("a@x.example"), message("not an address"), message("b@x.example")]
        with pytest.raises(InvalidMessage):
            EmailBackend().send_messages(batch)
    assert shop.statuses() == []


def test_silently_the_others_are_enqueued_and_the_log_has_no_address(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    shop, _ = opened
    with shop.app.app_context():
        batch = [message("a@x.example"), message("zoe at x"), message("b@x.example")]
        assert EmailBackend(fail_silently=True).send_messages(batch) == 2
        assert message("zoe at x").send(fail_silently=True) == 0
    assert shop.statuses() == ["pending"] * 2
    assert caplog.text.count("was not enqueued (fail_silently): to[0]: ") == 2
    assert "zoe" not in caplog.text


@pytest.mark.parametrize("silently", [True, False])
@pytest.mark.parametrize("field", ["subject", "from_email", "to", "cc", "reply_to", "headers"])
def test_a_header_with_a_line_break_is_refused_as_ever(
    opened: Opened, field: str, silently: bool
) -> None:
    shop, _ = opened
    evil = "x@x.example\nBcc: evil@evil.example"
    values = {"subject": evil, "from_email": evil, "headers": {"X-A": evil}}
    fields = {"to": ["a@x.example"], field: values.get(field, [evil])}
    with shop.app.app_context(), pytest.raises(flask_mailman.BadHeaderError):
        flask_mailman.EmailMessage(**fields).send(fail_silently=silently)
    assert shop.statuses() == []


def test_a_message_without_a_sender_is_refused(opened: Opened) -> None:
    shop, _ = opened
    shop.app.extensions["mailman"].default_sender = None
    with shop.app.app_context(), pytest.raises(InvalidMessage, match="MAIL_DEFAULT_SENDER"):
        message("a@x.example").send()


@pytest.mark.parametrize("config", [{"TESTING": True}, {"MAIL_SUPPRESS_SEND": True}], ids=str)
def test_what_is_suppressed_is_in_mail_outbox(opened: Opened, config: dict[str, bool]) -> None:
    shop, _ = opened
    mail = flask_mailman.Mail(shop.app)
    shop.app.config.update(config)
    with shop.app.app_context():
        assert message("a@x.example").send() == 1
        assert mail.send_mail("Order 2", "x", recipient_list=["b@x.example"]) == 1
    assert [sent.subject for sent in mail.outbox] == ["Order 1", "Order 2"]
    assert shop.statuses() == []


@pytest.mark.parametrize("name", ["console", "dummy", "file", "locmem"])
def test_another_backend_stays_as_it_was_chosen(
    opened: Opened, catcher: Catcher, tmp_path: Path, name: str
) -> None:
    shop, _ = opened
    shop.app.config.update(MAIL_BACKEND=name, MAIL_FILE_PATH=str(tmp_path))
    mail = flask_mailman.Mail(shop.app)
    with shop.app.app_context():
        assert mail.send_mail("Order 1", "x", recipient_list=["a@x.example"]) == 1
    assert (mail.backend, shop.statuses(), catcher.sessions) == (name, [], 0)
    assert "Flask-Mailman" not in check(shop)


def test_under_testing_flask_mailman_s_own_default_stays(opened: Opened) -> None:
    shop, _ = opened
    shop.app.config.update(TESTING=True, MAIL_BACKEND=None)
    assert flask_mailman.Mail(shop.app).backend == "locmem"


class Elsewhere(BaseEmailBackend):  # type: ignore[misc]
    """Sends over somebody's HTTP."""


def check(shop: Shop) -> str:
    return shop.app.test_cli_runner().invoke(args=["outbox", "check"]).output


def test_a_backend_that_bypasses_the_outbox_is_found_by_check(opened: Opened) -> None:
    shop, _ = opened
    assert "Flask-Mailman" not in check(shop)
    shop.app.config["MAIL_BACKEND"] = Elsewhere
    flask_mailman.Mail(shop.app)
    assert "Flask-Mailman sends by" in check(shop)
    assert 'Elsewhere, which bypasses the outbox: set MAIL_BACKEND = "outbox.mailman"' in check(
        shop
    )


def test_a_backend_that_is_not_there_is_flask_mailman_s_to_report(opened: Opened) -> None:
    shop, _ = opened
    shop.app.config["MAIL_BACKEND"] = "no.such.EmailBackend"
    mail = flask_mailman.Mail(shop.app)
    assert "Flask-Mailman" not in check(shop)
    with shop.app.app_context(), pytest.raises(RuntimeError, match="Unable to import backend"):
        mail.get_connection()


def test_the_log_says_that_smtp_is_the_outbox_s_now(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    shop, _ = opened
    caplog.set_level(logging.WARNING, "outbox")
    flask_mailman.Mail(shop.app)
    assert caplog.text == ""
    shop.app.config["MAIL_BACKEND"] = smtp.EmailBackend
    assert flask_mailman.Mail(shop.app).backend == "outbox.mailman"
    assert 'set MAIL_BACKEND = "outbox.mailman"' in caplog.text


def test_the_envelope_is_not_what_the_headers_say(opened: Opened, catcher: Catcher) -> None:
    shop, _ = opened
    headers = {"To": "list@x.example", "From": "Desk <desk@shop.example>", "Bcc": "x@x.example"}
    with shop.app.app_context():
        message("a@x.example", bcc=["b@x.example", "A <a@x.example>"], headers=headers).send()
    mail = arrived(opened, catcher)
    assert (mail.sender, mail.recipients) == ("shop@shop.example", ("a@x.example", "b@x.example"))
    head = mail.content.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert [line for line in head if line.startswith(b"To: ")] == [b"To: list@x.example"]
    assert b"From: Desk <desk@shop.example>" in head
    assert not any(line.startswith(b"Bcc") for line in head)


def test_recipients_that_no_header_names_are_enough(opened: Opened, catcher: Catcher) -> None:
    shop, _ = opened
    with shop.app.app_context():
        message(bcc=["a@x.example"]).send()
    assert arrived(opened, catcher).recipients == ("a@x.example",)


def test_the_sender_s_name_needs_no_quotes(opened: Opened, catcher: Catcher) -> None:
    """Flask-Security joins name and address without them."""
    shop, _ = opened
    with shop.app.app_context():
        message("a@x.example", from_email="Shop, Inc. <desk@shop.example>").send()
    mail = arrived(opened, catcher)
    assert mail.sender == "desk@shop.example"
    assert b'From: "Shop, Inc." <desk@shop.example>\r\n' in mail.content


def test_a_local_part_outside_of_ascii_goes_out_with_smtputf8(
    opened: Opened, catcher: Catcher
) -> None:
    shop, _ = opened
    with shop.app.app_context():
        message("jö@straße.example").send()
    mail = arrived(opened, catcher)
    assert mail.recipients == ("jö@xn--strae-oqa.example",)
    assert "SMTPUTF8" in mail.mail_options


def test_the_message_id_has_the_sender_s_domain_unless_it_is_given(opened: Opened) -> None:
    shop, _ = opened
    with shop.app.app_context():
        message("a@x.example").send()
        message("a@x.example", headers={"message-id": "<1@own.example>"}).send()
    table = shop.tables.email
    with shop.engine.connect() as connection:
        made, given = connection.execute(select(table.c.message_id).order_by(table.c.id)).scalars()
    assert made.endswith("@shop.example>")
    assert given == "<1@own.example>"


def test_the_options_for_mail_are_kept(shops: Shops) -> None:
    with Catcher(dsn=True) as catcher:
        shop, db = shops.open_flask(MAIL_PORT=catcher.port, MAIL_SEND_OPTIONS=["RET=HDRS"])
        flask_mailman.Mail(shop.app)
        with shop.app.app_context():
            message("a@x.example", from_email="shop@shop.example").send()
        assert "RET=HDRS" in arrived((shop, db), catcher).mail_options


@pytest.mark.long
def test_the_package_does_not_need_flask_mailman() -> None:
    program = "import outbox, sys; print('flask_mailman' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"False"
