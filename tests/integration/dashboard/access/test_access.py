"""Nobody sees anything until the app says so; a role is enough for what it says, and no more."""

from __future__ import annotations

import re
from http import HTTPMethod
from typing import Any

import pytest
from flask import Flask, abort, redirect
from werkzeug.routing import Rule

from outbox import ConfigurationError
from outbox.dashboard import Dashboard, Role
from outbox.dashboard.access.role import Visitor
from outbox.dashboard.messages.content import content_of
from tests.integration.dashboard.desk import Desk, whole
from tests.support.shop.shop import Shops

pytestmark = pytest.mark.one_database("sqlite")


def rules_of(app: Flask) -> list[Rule]:
    return [rule for rule in app.url_map.iter_rules() if "outbox_dashboard" in rule.endpoint]


def acts_of(app: Flask) -> list[Rule]:
    """Return the rules of what changes something: what answers each method is nowhere."""
    posts = [rule for rule in rules_of(app) if "POST" in (rule.methods or ())]
    found = [rule for rule in posts if "PUT" not in (rule.methods or ())]
    assert len(found) >= 10
    assert len(posts) - len(found) == 1
    return found


def path_of(rule: Rule) -> str:
    return re.sub(r"<[^>]*>", "1", rule.rule)


def ask(app: Flask, rule: Rule) -> int:
    method = "POST" if "POST" in (rule.methods or ()) else "GET"
    return app.test_client().open(path_of(rule), method=method).status_code


def test_without_access_each_address_answers_as_if_nothing_were_there(shops: Shops) -> None:
    app = shops.open().app
    Dashboard().init_app(app)
    rules = rules_of(app)
    assert len(rules) > 15
    elsewhere = app.test_client().get("/nowhere")
    for rule in rules:
        assert ask(app, rule) == 404, rule
        assert app.test_client().get(path_of(rule)).text == elsewhere.text
    for path in ("/", "/static/style/tokens.css", "/x/y", "/messages/1"):
        assert app.test_client().get(f"/outbox{path}").status_code == 404


def test_without_access_no_method_tells_that_something_is_there(shops: Shops) -> None:
    bare, app = shops.open().app, shops.open().app
    Dashboard(access=lambda: None).init_app(app)
    for path in ("", "/", "//", "/messages", "//messages", "/pauses/pause", "/pauses//pause", "/x"):
        for method in (*HTTPMethod, "PROPFIND"):
            nothing = bare.test_client().open(f"/outbox{path}", method=method)
            answer = app.test_client().open(f"/outbox{path}", method=method)
            assert (answer.status_code, answer.text) == (404, nothing.text), (method, path)
            assert sorted(answer.headers.keys()) == sorted(nothing.headers.keys())


def test_with_access_the_address_without_a_slash_leads_to_the_overview(desk: Desk) -> None:
    assert desk.get("", 308).headers["Location"] == "/outbox/"
    assert desk.get("?q=17", 308).headers["Location"] == "/outbox/?q=17"
    for path in ("/", "/messages", "/nowhere"):
        page = desk.client.put(f"/outbox{path}")
        assert page.status_code == 404
        assert "There is nothing here" in page.text


def test_each_address_asks_anew(desk: Desk) -> None:
    desk.get("/messages")
    desk.role = None
    for rule in rules_of(desk.shop.app):
        assert ask(desk.shop.app, rule) == 404, rule


def test_a_person_who_may_look_gets_no_body_and_changes_nothing(desk: Desk) -> None:
    email_id = desk.enqueue(whole())
    token = desk.token(f"/messages/{email_id}")
    desk.role = Role.VIEW
    page = desk.get(f"/messages/{email_id}").text
    for view in ("", "text", "html", "source", "headers"):
        page = desk.get(f"/messages/{email_id}", view=view).text
        assert "Order 1 &lt;script&gt;" in page
        assert "secret body" not in page
        assert "Thank you" not in page
        assert "inner.eml" not in page
        assert "<form" not in page
    for path in ("html", "message.eml", "files/0"):
        assert "You may look" in desk.get(f"/messages/{email_id}/{path}", 403).text
    desk.get("/suppressed.csv", 403)
    for role in (Role.VIEW, Role.READ):
        desk.role = role
        for rule in acts_of(desk.shop.app):
            done = desk.client.post(path_of(rule), data={"csrf_token": token, "scope": "all"})
            assert done.status_code == 403, rule
    assert desk.shop.outbox.audit() == ()
    assert desk.shop.outbox.paused() == ()


def test_of_a_message_whose_body_may_not_be_read_only_the_headers_are_handed_on(desk: Desk) -> None:
    details = desk.shop.outbox.get(desk.enqueue(whole()))
    assert details is not None
    with desk.shop.app.app_context():
        found = content_of(details, Visitor(role=Role.VIEW, who="ada"), "source")
    assert found is not None
    assert found.shown.octets.endswith(b"\r\n\r\n")
    assert b"<html" not in found.shown.octets
    assert found.views == ("headers",)


def test_a_person_who_may_read_gets_bodies(desk: Desk) -> None:
    email_id = desk.enqueue(whole())
    desk.role = Role.READ
    assert "secret body &amp; more" in desk.get(f"/messages/{email_id}", view="text").text
    assert '<form method="post"' not in desk.get(f"/messages/{email_id}").text


@pytest.mark.parametrize("given", [True, 3, "ACT", (Role.ACT,), ("ACT", "ada"), object()])
def test_an_answer_that_is_no_role_lets_nobody_in(shops: Shops, given: Any) -> None:
    app = shops.open().app
    Dashboard(access=lambda: given).init_app(app)
    page = app.test_client().get("/outbox/messages")
    assert page.status_code == 500
    app.testing = True
    with pytest.raises(ConfigurationError, match="return None, a Role, or"):
        app.test_client().get("/outbox/messages")


@pytest.mark.parametrize("given", [0, 4711, True, b"ada", ["ada"], object()])
def test_a_name_that_is_no_text_lets_nobody_in(shops: Shops, given: Any) -> None:
    """The audit would not say who it was, or that "b'ada'" was it."""
    app = shops.open().app
    Dashboard(access=lambda: (Role.ACT, given)).init_app(app)
    assert app.test_client().get("/outbox/messages").status_code == 500
    app.testing = True
    with pytest.raises(ConfigurationError, match="return text, such as str"):
        app.test_client().get("/outbox/messages")


@pytest.mark.parametrize("given", [None, False, (None, "ada"), (False, "ada"), (False, None)])
def test_false_lets_nobody_in_as_none_does(shops: Shops, given: Any) -> None:
    """An app may well write `user.is_staff and Role.ACT`."""
    app = shops.open().app
    Dashboard(access=lambda: given).init_app(app)
    assert app.test_client().get("/outbox/messages").status_code == 404


NAMELESS = (None, "", " ", False, "\u200b", " \u202e\u2066\ufeff", "\0")
"""What is no name: only a text with something to see is one."""


@pytest.mark.parametrize("given", [Role.ACT, *((Role.ACT, one) for one in NAMELESS)])
def test_a_person_without_a_name_is_somebody(shops: Shops, given: Any) -> None:
    """An account may have no name, and the audit must not say that None did it."""
    shop = shops.open(SECRET_KEY="secret")
    Dashboard(access=lambda: given).init_app(shop.app)
    client = shop.app.test_client()
    page = client.get("/outbox/pauses").text
    token = re.findall(r'name="csrf_token" value="([^"]+)"', page)[0]
    done = client.post("/outbox/pauses/pause", data={"csrf_token": token, "scope": "bulk"})
    assert done.status_code == 303
    assert [one.who for one in shop.outbox.audit()] == ["somebody"]


@pytest.mark.parametrize(
    ("given", "who"),
    [("\u202eada\u2069", "ada"), ("a\u200bda", "ada"), ("ada\nb", "ada b"), ("Zoë 😀", "Zoë 😀")],
)
def test_a_name_has_no_character_that_hides(shops: Shops, given: str, who: str) -> None:
    """Two names that look alike would be two persons in the audit, and one could seem another."""
    app = shops.open(SECRET_KEY="secret").app
    Dashboard(access=lambda: (Role.VIEW, given)).init_app(app)
    assert f"<span>{who}</span>" in app.test_client().get("/outbox/pauses").text


def test_access_may_be_a_coroutine_and_may_send_the_visitor_elsewhere(shops: Shops) -> None:
    async def later() -> Role:
        return Role.VIEW

    app = shops.open(SECRET_KEY="secret").app
    Dashboard(app, access=later, url_prefix="/staff/mail")
    page = app.test_client().get("/staff/mail/messages")
    assert page.status_code == 200
    assert "somebody" in page.text
    other = shops.open().app
    Dashboard(other, access=lambda: abort(redirect("/login")))
    assert other.test_client().get("/outbox/messages").headers["Location"] == "/login"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"access": Role.ACT}, "access must be a function"),
        ({"url_prefix": "outbox"}, "url_prefix"),
        ({"url_prefix": "/outbox/"}, "url_prefix"),
    ],
)
def test_a_wrong_argument_is_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Dashboard(Flask("shop"), **options)


def test_a_second_dashboard_is_refused(desk: Desk) -> None:
    Dashboard().init_app(Flask("other"))
    with pytest.raises(ConfigurationError, match="has a dashboard already"):
        Dashboard().init_app(desk.shop.app)
