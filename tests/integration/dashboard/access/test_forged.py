"""A form that was not sent from a page of this visitor changes nothing, and no GET does."""

from __future__ import annotations

import gc
import re
from io import BytesIO

import pytest
from flask import Flask
from flask_wtf import CSRFProtect
from werkzeug.test import EnvironBuilder, run_wsgi_app

from outbox import ConfigurationError, Status
from outbox.dashboard import Dashboard, Role
from tests.integration.dashboard.access.test_access import acts_of, path_of
from tests.integration.dashboard.desk import Desk
from tests.support.shop.shell import stuck
from tests.support.shop.shop import Shops

pytestmark = pytest.mark.one_database("sqlite")


def test_a_form_without_a_token_with_a_wrong_one_or_another_persons_changes_nothing(
    desk: Desk,
) -> None:
    email_id = stuck(desk.shop, Status.UNKNOWN)
    page = f"/messages/{email_id}"
    own = desk.token(page)
    other = desk.shop.app.test_client()
    text = other.get(f"/outbox{page}").text
    theirs = re.findall(r'name="csrf_token" value="([^"]+)"', text)[0]
    desk.who = "eve"
    eves = desk.token(page)
    desk.who = "ada"
    for token in ("", "x", own[:-1], own + "x", theirs, eves):
        for rule in acts_of(desk.shop.app):
            path = path_of(rule).replace("/1/", f"/{email_id}/")
            done = desk.client.post(path, data={"csrf_token": token, "outcome": "sent"})
            assert done.status_code == 400, path
            assert "This form is too old" in done.text
    stolen = desk.shop.app.test_client()  # without the cookie
    done = stolen.post(f"/outbox{page}/retry", data={"csrf_token": own})
    assert done.status_code == 400
    assert desk.shop.status(email_id) is Status.UNKNOWN
    assert desk.shop.outbox.audit() == ()
    desk.post(f"{page}/retry", page)
    assert desk.shop.status(email_id) is Status.PENDING


def test_the_cookie_is_never_sent_from_another_site(desk: Desk) -> None:
    cookie = desk.get("/pauses").headers["Set-Cookie"]
    for said in ("HttpOnly", "SameSite=Strict", "Path=/outbox"):
        assert said in cookie
    assert "Set-Cookie" not in desk.get("/pauses").headers
    desk.client.delete_cookie("outbox_csrf", path="/outbox")
    secure = desk.client.get("/outbox/pauses", base_url="https://shop.example")
    assert "Secure" in secure.headers["Set-Cookie"]


def test_the_cookie_comes_back_to_an_app_below_a_prefix(desk: Desk) -> None:
    below = {"base_url": "https://shop.example/app"}
    page = desk.client.get("/outbox/pauses", **below)
    assert "Path=/app/outbox;" in page.headers["Set-Cookie"]
    token = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)[0]
    fields = {"csrf_token": token, "scope": "bulk"}
    done = desk.client.post("/outbox/pauses/pause", data=fields, **below)
    assert done.status_code == 303, done.text


def test_no_get_changes_anything(desk: Desk) -> None:
    email_id = stuck(desk.shop, Status.FAILED)
    for rule in acts_of(desk.shop.app):
        path = path_of(rule).replace("/1/", f"/{email_id}/").removeprefix("/outbox")
        desk.get(path, 302, scope="all", address="a@x.example", new="a@x.example")
    assert desk.shop.status(email_id) is Status.FAILED
    assert desk.shop.outbox.audit() == ()
    assert desk.shop.outbox.suppressed() == ()


@pytest.mark.parametrize("field", ["csrf_token", "xsrf"])
def test_under_flask_wtf_the_forms_carry_its_token(shops: Shops, field: str) -> None:
    shop = shops.open(SECRET_KEY="secret", WTF_CSRF_FIELD_NAME=field)
    CSRFProtect(shop.app)
    Dashboard(shop.app, access=lambda: Role.ACT)
    client = shop.app.test_client()
    page = client.get("/outbox/pauses").text
    token = re.findall(rf'name="{field}" value="([^"]+)"', page)[0]
    assert "outbox_csrf" not in str(client.get("/outbox/pauses").headers)
    refused = shop.app.test_client().post("/outbox/pauses/pause", data={field: token})
    assert refused.status_code == 400
    done = client.post("/outbox/pauses/pause", data={field: token, "scope": "bulk"})
    assert done.status_code == 303
    assert [one.scope for one in shop.outbox.paused()] == ["bulk"]


def test_a_protection_that_checks_nothing_by_default_is_made_up_for(shops: Shops) -> None:
    shop = shops.open(SECRET_KEY="secret", WTF_CSRF_CHECK_DEFAULT=False)
    CSRFProtect(shop.app)
    Dashboard(shop.app, access=lambda: Role.ACT)
    done = shop.app.test_client().post("/outbox/pauses/pause", data={"scope": "bulk"})
    assert done.status_code == 400
    assert shop.outbox.paused() == ()


def test_an_app_without_a_secret_key_is_told_so(
    shops: Shops, caplog: pytest.LogCaptureFixture
) -> None:
    app: Flask = shops.open().app
    Dashboard(app, access=lambda: Role.ACT)
    app.testing = True
    with pytest.raises(ConfigurationError, match="SECRET_KEY"):
        app.test_client().get("/outbox/pauses")
    app.testing = False
    page = app.test_client().get("/outbox/pauses")
    assert page.status_code == 500
    assert "SECRET_KEY" in page.text
    assert "a page of the dashboard failed" in caplog.text


# Werkzeug leaves the part of a file that it had read to the garbage collector.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Unclosed file:ResourceWarning")
@pytest.mark.parametrize(("octets", "status"), [(1_000_000, 400), (10_000_000, 413)])
def test_an_upload_in_chunks_tells_no_length_and_has_the_same_limit(
    desk: Desk, octets: int, status: int
) -> None:
    """In chunks as a server hands them on, with the end that it has found."""
    builder = EnvironBuilder(
        path="/outbox/suppressed/import",
        method="POST",
        data={"file": (BytesIO(b"x" * octets), "addresses.csv")},
        environ_base={"wsgi.input_terminated": True},
    )
    environ = builder.get_environ()
    del environ["CONTENT_LENGTH"]
    given = environ["wsgi.input"]
    _, answered, _ = run_wsgi_app(desk.shop.app, environ)  # a test client would count the octets
    assert answered.startswith(f"{status} ")
    assert (len(given.read()) > 7_000_000) is (status == 413), "and the rest is not read"
    given.close()
    gc.collect()


@pytest.mark.parametrize("limit", [None, 1000])
def test_a_form_that_is_too_much_is_told_so_on_a_page_of_ours(
    shops: Shops, limit: int | None
) -> None:
    desk = Desk(shops, MAX_CONTENT_LENGTH=limit)
    data = {"csrf_token": desk.token("/suppressed"), "new": "x" * (limit or 3_000_000)}
    done = desk.client.post("/outbox/suppressed/add", data=data)
    assert done.status_code == 413
    assert "A form may have 2 MB at most, or less if the app&#39;s settings say so." in done.text
    assert "default-src 'none'" in done.headers["Content-Security-Policy"]


@pytest.mark.long
@pytest.mark.over_and_over
def test_too_much_is_refused_before_it_is_read(desk: Desk) -> None:
    page = desk.client.post("/outbox/pauses/pause", data={"scope": "x" * 10_000_000})
    assert page.status_code == 413
    for field in ("status", "tag"):
        told = desk.get("/messages", 400, **{field: "x" * 10_000_000}).text
        assert f"{field}: must be text of at most" in told
        assert len(told) < 10_000
    desk.get("/suppressed", 400, address="x" * 10_000_000)
