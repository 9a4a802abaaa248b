"""Nobody sees anything until the app says so; a role is enough for what it says, and no more."""

from __future__ import annotations

import re
from base64 import b64encode
from http import HTTPMethod
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask, abort, redirect
from flask_login import LoginManager, UserMixin, login_user
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Rule
from werkzeug.security import generate_password_hash

from outbox import ConfigurationError
from outbox.dashboard import Dashboard, Role, basic_auth, flask_login
from outbox.dashboard.access.role import Visitor
from outbox.dashboard.messages.content import content_of
from tests.support.shop.shop import Shops

from .desk import Desk, whole

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


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}


def test_basic_auth_asks_for_a_password_and_knows_whose_it_is(shops: Shops) -> None:
    app = shops.open(SECRET_KEY="secret").app
    hashed = generate_password_hash("päss", "pbkdf2:sha256:1000")
    users = {"ada": (hashed, Role.ACT), "bob": (hashed, Role.VIEW)}
    Dashboard(app, access=basic_auth(users))
    client = app.test_client()
    asked = client.get("/outbox/messages")
    assert asked.status_code == 401
    assert asked.headers["WWW-Authenticate"].startswith("Basic realm=outbox")
    for name, password in (("ada", "wrong"), ("eve", "päss"), ("", ""), ("ada", "")):
        page = client.get("/outbox/messages", headers=basic(name, password))
        assert page.status_code == 401, name
    bearer = {"Authorization": "Bearer token"}
    assert client.get("/outbox/messages", headers=bearer).status_code == 401
    for _ in range(2):  # the second time by the digest
        page = client.get("/outbox/messages", headers=basic("bob", "päss"))
        assert "bob" in page.text
        assert "may look" in page.text
    assert client.get("/outbox/messages", headers=basic("bob", "wrong")).status_code == 401
    with pytest.raises(ConfigurationError, match="the password of 'ada' is not hashed"):
        basic_auth({"ada": ("clear", Role.ACT)})
    for entry in (hashed, (hashed,), (hashed, "act"), (Role.ACT, hashed), None):
        with pytest.raises(ConfigurationError, match="'ada' needs a hash and a role") as told:
            basic_auth({"ada": entry})  # type: ignore[dict-item]
        assert hashed not in str(told.value)


def test_a_name_that_nobody_has_is_compared_as_slowly_as_a_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time of the answer would tell which names exist."""
    asked: list[str] = []

    def compare(hashed: str, _: str) -> bool:
        asked.append(hashed)
        return False

    monkeypatch.setattr("outbox.dashboard.access.basic_auth.check_password_hash", compare)
    hashed = generate_password_hash("x", method="pbkdf2:sha256:1000")
    for users in ({"ada": (hashed, Role.ACT)}, {}):
        access = basic_auth(users)
        with Flask("shop").test_request_context(auth=("bob", "x")), pytest.raises(HTTPException):
            access()
    assert asked == [hashed, ""]


def test_a_browser_is_asked_for_a_password_whatever_the_apps_page_of_errors_is(
    shops: Shops,
) -> None:
    app = shops.open(SECRET_KEY="secret").app
    app.register_error_handler(HTTPException, lambda error: ("Our own page", error.code))
    Dashboard(app, access=basic_auth({"ada": (generate_password_hash("x"), Role.ACT)}))
    asked = app.test_client().get("/outbox/")
    assert asked.status_code == 401
    assert asked.headers["WWW-Authenticate"].startswith("Basic realm=outbox")
    assert app.test_client().get("/nowhere").text == "Our own page"


class User(UserMixin):  # type: ignore[misc]  # it has no types
    def __init__(self, name: str) -> None:
        self.id = name


def test_flask_login_decides_by_the_user(shops: Shops) -> None:
    app = shops.open(SECRET_KEY="secret").app
    manager = LoginManager(app)
    manager.login_view = "login"
    manager.user_loader(User)

    @app.get("/login/<name>")
    @app.get("/login", defaults={"name": ""})
    def login(name: str) -> str:
        return str(login_user(User(name)))

    roles = {"ada": Role.ACT, "bob": Role.VIEW}
    Dashboard(app, access=flask_login(lambda user: roles.get(user.id)))
    client = app.test_client()
    sent = client.get("/outbox/messages")
    assert (sent.status_code, sent.headers["Location"][:6]) == (302, "/login")
    for name, told in (("ada", "may act"), ("bob", "may look")):
        client.get(f"/login/{name}")
        page = client.get("/outbox/messages").text
        assert name in page
        assert told in page
    client.get("/login/eve")
    assert client.get("/outbox/messages").status_code == 404


def test_a_person_whose_session_ended_before_a_form_is_told_that_nothing_was_done(
    shops: Shops,
) -> None:
    shop = shops.open(SECRET_KEY="secret")
    manager = LoginManager(shop.app)
    manager.login_view = "login"
    manager.user_loader(User)
    shop.app.add_url_rule("/login", "login", lambda: str(login_user(User("ada"))))
    Dashboard(shop.app, access=flask_login(Role.ACT))
    client = shop.app.test_client()
    for form, page in (
        ("/outbox/pauses/pause", "/outbox/pauses"),
        ("/outbox/messages/7/retry", "/outbox/messages/7"),
        ("/outbox/suppressed/add", "/outbox/suppressed"),
    ):
        client.delete_cookie("session")
        sent = client.post(form, data={"scope": "all"})
        query = parse_qs(urlsplit(sent.headers["Location"]).query)
        client.get("/login")
        led = client.get(query["next"][0])
        assert led.headers["Location"] == f"{page}?not_done=1"
        assert "You had to log in first" in client.get(led.headers["Location"]).text
    assert shop.outbox.paused() == ()


def test_each_user_who_is_logged_in_may_have_the_same_role(shops: Shops) -> None:
    app = shops.open(SECRET_KEY="secret").app
    LoginManager(app).user_loader(User)
    app.add_url_rule("/login", view_func=lambda: str(login_user(User("7"))))
    Dashboard(app, access=flask_login(Role.READ, who=lambda user: f"user {user.id}"))
    client = app.test_client()
    assert client.get("/outbox/messages").status_code == 401
    client.get("/login")
    assert "user 7" in client.get("/outbox/messages").text
