"""`basic_auth` and `flask_login`: who is let in by what an app has at hand."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from flask_login import LoginManager, UserMixin, login_user
from werkzeug.exceptions import HTTPException
from werkzeug.security import generate_password_hash

from outbox import ConfigurationError
from outbox.dashboard import Dashboard, Role, basic_auth, flask_login
from tests.support.shop.shop import Shops

pytestmark = pytest.mark.one_database("sqlite")


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}


@pytest.mark.long
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


@pytest.mark.long
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
