"""A preview as a developer sees it, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_mail import Message
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from sqlalchemy.orm import scoped_session, sessionmaker
from werkzeug.serving import make_server

from outbox import Outbox
from tests.browser.leaving import follow
from tests.browser.serving import serving

pytestmark = pytest.mark.long

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
HOSTILE = "<script>top.document.title = document.title = 'owned'</script>"
HTML = f"""<!doctype html>
<style>
  body {{ color: rgb(1, 2, 3); }}
  @media (prefers-color-scheme: dark) {{ body {{ color: rgb(4, 5, 6); }} }}
  @media (max-width: 400px) {{ p {{ display: none; }} }}
</style>
<h1>Thank you</h1><p>Wide</p><img id="own" src="cid:logo" alt="Shop">
<img id="away" src="/loaded" alt="" onerror="top.document.title = 'owned'">
<link rel="stylesheet" href="/loaded">
<a href="/loaded">Track</a>{HOSTILE}
"""


class Development:
    """An app in debug mode, with a preview of each kind."""

    def __init__(self) -> None:
        self.loaded: list[str] = []  # what an email brought the browser to ask for
        engine = sa.create_engine("sqlite://")
        app, outbox = Flask("shop"), Outbox()
        app.debug = True
        outbox.preview("Order confirmation")(_order)
        outbox.preview("Broken")(_broken)
        session = scoped_session(sessionmaker(engine))
        outbox.init_app(app, session=session, metadata=sa.MetaData(), engine=engine)

        @app.get("/loaded")
        def loaded() -> str:
            self.loaded.append("/loaded")
            return ""

        self.server = make_server("127.0.0.1", 0, app, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.port}/outbox/previews"


def _order() -> Message:
    """Sent with each order."""
    made = Message(
        "Your order", ["ada@x.example"], "Thank you", html=HTML, sender="shop@shop.example"
    )
    made.attach("logo.png", "image/png", PIXEL, headers={"Content-ID": "<logo>"})
    return made


def _broken() -> Message:
    raise RuntimeError(HOSTILE)


@pytest.fixture
def development() -> Iterator[Development]:
    site = Development()
    with serving(site.server):
        yield site


def choose(browser: Chrome, value: str) -> None:
    browser.find_element(By.ID, value).find_element(By.XPATH, "./../span").click()


def in_frame(browser: Chrome, script: str) -> object:
    """Run a script of the test's in the frame, where the email's own scripts cannot run."""
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    try:
        return browser.execute_script(script)
    finally:
        browser.switch_to.default_content()


def shown_parts(browser: Chrome) -> list[str | None]:
    panes = browser.find_elements(By.CLASS_NAME, "pane")
    return [pane.get_attribute("data-part") for pane in panes if pane.is_displayed()]


def test_an_email_is_seen_at_each_width_and_in_both_colours(
    browser: Chrome, development: Development
) -> None:
    browser.get(development.url)
    follow(browser, By.PARTIAL_LINK_TEXT, "Sent with each order.")
    colour = "return getComputedStyle(document.body).color"
    wide = "return document.querySelector('p').offsetHeight > 0"
    assert in_frame(browser, wide) is True
    assert in_frame(browser, colour) == "rgb(1, 2, 3)"
    assert in_frame(browser, "return document.getElementById('own').naturalWidth") == 1
    assert in_frame(browser, "return document.compatMode") == "CSS1Compat"
    choose(browser, "phone")
    assert browser.find_element(By.TAG_NAME, "iframe").size["width"] == 390
    assert in_frame(browser, wide) is False
    choose(browser, "dark")
    assert in_frame(browser, colour) == "rgb(4, 5, 6)"
    for part in ("text", "links", "headers", "source", "html"):
        choose(browser, part)
        assert shown_parts(browser) == [part]


def test_an_email_runs_nothing_and_loads_nothing(browser: Chrome, development: Development) -> None:
    browser.get(f"{development.url}/order-confirmation")
    assert in_frame(browser, "return document.getElementById('away').complete") is True
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    browser.find_element(By.LINK_TEXT, "Track").click()
    browser.switch_to.default_content()
    assert browser.title == "Order confirmation"
    browser.get(f"{development.url}/broken")
    assert "RuntimeError: <script>" in browser.find_element(By.CLASS_NAME, "broken").text
    assert browser.title == "Broken"
    assert development.loaded == []


def test_the_page_fits_a_phone(browser: Chrome, development: Development) -> None:
    size = browser.get_window_size()
    browser.set_window_size(500, 800)  # the narrowest that Chromium's window becomes
    try:
        browser.get(f"{development.url}/order-confirmation")
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.execute_script(wide) == 0
    finally:
        browser.set_window_size(size["width"], size["height"])
