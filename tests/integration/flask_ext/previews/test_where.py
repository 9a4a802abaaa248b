"""Where `/outbox/previews` is, and which functions it takes; nothing is sent or written there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask, redirect
from flask_mail import Message

from outbox import ConfigurationError, InvalidMessage, OutboxMail
from tests.support.shop.shop import message, newsletter

from .site import HOSTILE, Site, order_confirmation


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


def test_a_function_that_needs_arguments_is_refused_with_its_name_and_the_remedy(
    site: Site,
) -> None:
    def confirmation(order: int, *lines: str, customer: str, note: str = "") -> Message:
        raise AssertionError((order, lines, customer, note))

    with pytest.raises(ConfigurationError) as caught:
        site.outbox.preview("Order")(confirmation)  # type: ignore[type-var]
    told = str(caught.value)
    assert told.startswith(f"the preview 'Order': {__name__}.test_a_function")
    assert "confirmation needs order, customer, and a preview is called without arguments" in told
    assert "decorate a function that takes none" in told
    assert site.get("/order").status_code == 404
    callable_without: dict[str, Callable[[], object]] = {
        "defaults": lambda order=1, **_: message(str(order)),
        "partial": partial(confirmation, 1, customer="Ada"),
        "built-in": dict,
    }
    for name, function in callable_without.items():
        site.outbox.preview(name)(function)


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
