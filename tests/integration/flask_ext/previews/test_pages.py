"""The pages at `/outbox/previews`: what they show, when they are there; nothing is sent."""

from __future__ import annotations

import re
from collections.abc import Callable
from email import message_from_bytes, policy
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask, redirect, url_for
from flask_mail import Message
from flask_sqlalchemy import SQLAlchemy
from werkzeug.test import TestResponse

from outbox import ConfigurationError, InvalidMessage, Outbox, OutboxMail
from outbox.testing import OutboxTester
from tests.support.shop.shop import message, newsletter

HOSTILE = "<script>document.title='owned'</script>"
HTML = '<!doctype html><h1>Thank you</h1><img src="cid:logo" alt="Shop"><img src="cid:gone" alt="">'


def order_confirmation() -> Message:
    """Sent with each order.

    And no more.
    """
    made = Message(
        f"Your order {HOSTILE}",
        ["ada@x.example"],
        "Thank you & bye",
        html=HTML + HOSTILE,
        sender=("Käse & Co", "shop@shop.example"),
        bcc=["desk@shop.example"],
    )
    made.attach("logo.png", "image/png", b"\x89PNG", headers={"Content-ID": "<logo>"})
    return made


class Site:
    """An app in development, with an outbox and previews."""

    def __init__(self, **config: Any) -> None:
        self.outbox, self.db = Outbox(), SQLAlchemy()
        self.config = {"DEBUG": True, "SQLALCHEMY_DATABASE_URI": "sqlite://", **config}

    def app(self) -> Flask:
        app = Flask("shop")
        app.config.update(self.config)
        self.db.init_app(app)
        self.outbox.init_app(app, db=self.db)
        with app.app_context():
            self.db.create_all()
        return app

    def show(self, function: Callable[[], Any], path: str = "/one", **options: Any) -> TestResponse:
        """Return the page of a function's preview."""
        self.outbox.preview("One", **options)(function)
        return self.get(path)

    def get(self, path: str = "") -> TestResponse:
        return self.app().test_client().get(f"/outbox/previews{path}")


@pytest.fixture
def site() -> Site:
    return Site()


def frame_of(page: TestResponse) -> str:
    """Return the HTML in the frame."""
    found = re.search(r'<iframe sandbox [^>]*srcdoc="([^"]*)"></iframe>', page.text)
    assert found
    return unescape(found[1])


def test_the_page_shows_the_message_as_it_would_be_enqueued(site: Site) -> None:
    page = site.show(order_confirmation)
    assert page.status_code == 200
    for shown in (
        "Käse &amp; Co", "ada@x.example", "desk@shop.example", "Sent with each order.",
        "<pre>Thank you &amp; bye</pre>", "logo.png", "(image/png,",
        '<th scope="row">Message-ID</th>',
    ):  # fmt: skip
        assert shown in page.text, shown
    assert "And no more" not in page.text
    octets = site.get("/one.eml")
    assert octets.mimetype == "message/rfc822"
    assert octets.headers["Content-Disposition"] == "attachment; filename=one.eml"
    app = site.app()
    with app.app_context(), OutboxTester(app) as tester:
        site.outbox.enqueue(order_confirmation())
        enqueued = tester.assert_enqueued()
    parsed = message_from_bytes(octets.data, policy=policy.default)
    volatile = {"Message-ID", "Date"}
    assert [item for item in parsed.items() if item[0] not in volatile] == [
        item for item in enqueued.message.items() if item[0] not in volatile
    ]
    assert octets.data.partition(b"\r\n\r\n")[2] == enqueued.octets.partition(b"\r\n\r\n")[2]


def test_what_a_message_has_is_escaped_and_its_html_is_in_a_frame_without_rights(
    site: Site,
) -> None:
    page = site.show(order_confirmation)
    assert HOSTILE not in page.text
    framed = frame_of(page)
    assert framed.startswith("<meta http-equiv=")
    assert framed.endswith(HOSTILE)  # as it is: there no script runs
    assert '<img src="data:image/png;base64,iVBORw==" alt="Shop">' in framed
    assert '<img src="cid:gone" alt="">' in framed
    rules = page.headers["Content-Security-Policy"]
    assert rules.startswith("default-src 'none'; img-src data:;")
    assert "script-src" not in rules
    assert page.headers["Cache-Control"] == "no-store"


def test_a_newsletter_is_filled_in_for_its_reader(site: Site) -> None:
    def news() -> Message:
        text = "Hello {{ name }}"
        html = "<p>Hello {{ name }}</p>"
        return Message("News for {{ name }}", body=text, html=html, sender="shop@shop.example")

    page = site.show(
        news,
        to=("Ada", "ada@x.example"),
        fields=lambda address: {"name": f"{address} & Co"},
        unsubscribe=lambda address: f"https://shop.example/leave/{address}",
    )
    assert "<pre>Hello ada@x.example &amp; Co</pre>" in page.text
    assert "<p>Hello ada@x.example &amp; Co</p>" in frame_of(page)
    assert "News for ada@x.example &amp; Co" in page.text
    assert "&lt;https://shop.example/leave/ada@x.example&gt;" in page.text
    assert "No warnings." in page.text
    assert "Bulk without" in Site().show(newsletter, to="ada@x.example").text


def test_a_standard_message_and_the_options_of_enqueue(site: Site) -> None:
    page = site.show(
        message,
        auto_submitted=True,
        envelope_from="<>",
        unsubscribe="https://shop.example/leave",
    )
    assert '<th scope="row">Auto-Submitted</th><td>auto-generated</td>' in page.text
    assert "<dt>Bounces</dt><dd>&lt;&gt;</dd>" in page.text
    assert "<pre>Thank you.\n</pre>" in page.text
    assert "<iframe" not in page.text
    page = Site(OUTBOX_ENVELOPE_FROM="bounces@shop.example").show(message)
    assert "<dt>Bounces</dt><dd>bounces@shop.example</dd>" in page.text


def test_the_function_may_be_a_coroutine_and_use_the_request(site: Site) -> None:
    async def link() -> Message:
        url = url_for("outbox_previews.index", _external=True)
        return Message("Link", ["a@x.example"], html=f'<a href="{url}">x</a>', sender="s@x.example")

    page = site.show(link)
    assert "http://localhost/outbox/previews" in page.text
    assert "cannot reach" not in page.text  # the link is this server's own


def test_a_broken_function_shows_its_error_and_the_list_stands(site: Site) -> None:
    @site.outbox.preview("Broken")
    def broken() -> Message:
        raise RuntimeError(f"no such order {HOSTILE}")

    page = site.show(lambda: Message("No recipient", body="x"))
    assert page.status_code == 500
    assert "InvalidMessage: " in page.text
    page = site.get("/broken")
    assert page.status_code == 500
    assert "RuntimeError: no such order &lt;script&gt;" in page.text
    assert "in broken\n" in page.text  # the traceback
    page = site.get()
    assert page.status_code == 200
    assert page.text.count("test_pages.") == 2
    assert site.get("/").status_code == 200
    site.config |= {"DEBUG": False, "OUTBOX_PREVIEWS": True}
    page = site.get("/broken")
    assert "RuntimeError: no such order" in page.text
    assert "Traceback" not in page.text
    assert site.get("/broken.eml").status_code == 500
    assert site.get("/other").status_code == 404


@pytest.mark.parametrize("given", [None, "text", 7])
def test_what_is_no_message_is_told(site: Site, given: object) -> None:
    page = site.show(lambda: given)
    assert page.status_code == 500
    assert "message" in page.text


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({"DEBUG": False}, 404),
        ({"DEBUG": False, "OUTBOX_PREVIEWS": True}, 200),
        ({"OUTBOX_PREVIEWS": False}, 404),
        ({"DEBUG": True}, 200),
    ],
)
def test_the_pages_are_there_in_debug_mode_or_where_a_setting_says_so(
    config: dict[str, Any], status: int
) -> None:
    site = Site(**config)
    assert site.get().status_code == status
    rules = [rule.rule for rule in site.app().url_map.iter_rules()]
    assert any("previews" in rule for rule in rules) is (status == 200)


def test_they_are_gone_when_debug_mode_ends(site: Site) -> None:
    app = site.app()
    app.debug = False
    for path in ("", "/one", "/one.eml", "/static/previews.css"):
        assert app.test_client().get(f"/outbox/previews{path}").status_code == 404


def test_nothing_is_sent_and_nothing_is_written(site: Site) -> None:
    orders = sa.Table("orders", site.db.metadata, sa.Column("id", sa.Integer, primary_key=True))

    def writes() -> Message:
        site.db.session.execute(orders.insert().values(id=7))
        return order_confirmation()

    def enqueues() -> Message:
        site.outbox.enqueue(order_confirmation())
        return order_confirmation()

    def sends() -> Message:
        OutboxMail().send(order_confirmation())
        return order_confirmation()

    app = site.app()
    OutboxMail(app)

    @app.teardown_request
    def commit(_: object) -> None:  # an app that commits at each request's end
        site.db.session.commit()

    client = app.test_client()
    for name, status in (("writes", 200), ("enqueues", 500), ("sends", 500)):
        site.outbox.preview(name)({"writes": writes, "enqueues": enqueues, "sends": sends}[name])
        page = client.get(f"/outbox/previews/{name}")
        assert page.status_code == status
        assert ("a preview sends nothing" in page.text) is (status == 500)
    with app.app_context():
        assert site.outbox.counts() == {}
        assert site.db.session.execute(sa.select(orders)).all() == []
        site.outbox.enqueue(order_confirmation())  # elsewhere it works
        site.db.session.commit()
        assert site.outbox.counts() == {"pending": 1}


def test_two_functions_of_one_name_are_refused_and_a_factory_may_run_twice(site: Site) -> None:
    for _ in range(2):

        @site.outbox.preview("Order")
        def again() -> Message:
            return order_confirmation()

    assert site.get("/order").status_code == 200
    with pytest.raises(ConfigurationError, match="two previews are named 'order'"):
        site.outbox.preview("order")(newsletter)
    for name in ("", "…", None):
        with pytest.raises(ConfigurationError, match="needs a name"):
            site.outbox.preview(name)  # type: ignore[arg-type]
    site.outbox.preview("Привет, Ada")(message)
    assert "Привет, Ada" in site.get("/привет-ada").text


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"to": "no address"}, "recipients"),
        ({"fields": dict}, "fields"),
        ({"to": "a@x.example", "fields": 7}, "fields"),
        ({"to": "a@x.example", "unsubscribe": "https://x.example/u"}, "unsubscribe"),
        ({"unsubscribe": "http://x.example/u"}, "unsubscribe"),
        ({"auto_submitted": "maybe"}, "auto_submitted"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(
    site: Site, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidMessage) as refused:
        site.outbox.preview("One", **options)
    assert refused.value.field == field


def test_an_app_with_a_jinja_of_its_own(site: Site) -> None:
    app = Flask("shop")
    app.jinja_options = {
        "variable_start_string": "[[",
        "variable_end_string": "]]",
        "autoescape": False,
    }
    app.config.update(site.config)
    site.db.init_app(app)
    site.outbox.init_app(app, db=site.db)
    site.outbox.preview("One")(order_confirmation)
    page = app.test_client().get("/outbox/previews/one")
    assert "Käse &amp; Co" in page.text
    assert HOSTILE not in page.text


def test_the_apps_login_holds_for_the_pages_too(site: Site) -> None:
    app = site.app()
    app.before_request(lambda: redirect("/login"))
    assert app.test_client().get("/outbox/previews").status_code == 302


def test_the_empty_list_says_how_to_make_one(site: Site) -> None:
    assert '@outbox.preview("Order confirmation")' in site.get().text
