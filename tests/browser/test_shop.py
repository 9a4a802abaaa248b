"""What a visitor of the shop sees, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.browser.leaving import DEADLINE, follow
from webapp.maildir import Maildir

pytestmark = pytest.mark.long

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def order(browser: Chrome, shop: Any, *, name: str, email: str, card: str = "works") -> None:
    browser.get(f"{shop.url}/")
    browser.find_element(By.NAME, "name").send_keys(name)
    browser.find_element(By.NAME, "email").send_keys(email)
    browser.find_element(By.CSS_SELECTOR, f"input[name=card][value={card}]").click()
    follow(browser, By.CSS_SELECTOR, ".checkout .button")


def post_newsletter(browser: Chrome, shop: Any, *, subject: str, readers: int) -> None:
    browser.get(f"{shop.url}/newsletter")
    for field, value in (("subject", subject), ("readers", str(readers))):
        element = browser.find_element(By.NAME, field)
        element.clear()
        element.send_keys(value)
    follow(browser, By.CSS_SELECTOR, ".letter .button")


def see_in_inbox(browser: Chrome, shop: Any, text: str) -> None:
    def listed(driver: Chrome) -> bool:
        driver.get(f"{shop.url}/inbox")
        return text in driver.find_element(By.TAG_NAME, "main").text

    WebDriverWait(browser, DEADLINE, poll_frequency=0.1).until(listed)


def heading(browser: Chrome) -> str:
    return browser.find_element(By.TAG_NAME, "h1").text


def test_an_order_is_confirmed_in_the_inbox(browser: Chrome, shop: Any) -> None:
    order(browser, shop, name="Ada Lovelace", email="ada@example.com")
    assert heading(browser) == "Thank you, Ada Lovelace."
    WebDriverWait(browser, DEADLINE).until(
        lambda driver: driver.find_element(By.CSS_SELECTOR, ".stamp[data-value=sent]")
    )
    see_in_inbox(browser, shop, "ada@example.com")
    browser.get(f"{shop.url}/orders")
    follow(browser, By.PARTIAL_LINK_TEXT, "F-0")
    follow(browser, By.LINK_TEXT, "Read the email")
    assert "Invoice F-0" in browser.find_element(By.CSS_SELECTOR, ".facts").text
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    assert "Thank you, Ada Lovelace." in heading(browser)
    browser.switch_to.default_content()
    follow(browser, By.LINK_TEXT, "Text")
    assert "Dear Ada Lovelace," in browser.find_element(By.TAG_NAME, "pre").text


def test_a_declined_payment_leaves_no_order_and_no_email(browser: Chrome, shop: Any) -> None:
    order(browser, shop, name="Nobody", email="nobody@example.com", card="declined")
    assert "nothing happened" in browser.find_element(By.CSS_SELECTOR, "[role=alert]").text
    browser.get(f"{shop.url}/orders")
    assert "Nobody" not in browser.find_element(By.TAG_NAME, "main").text

    # Had there been an email, it would have left before that of a later order.
    order(browser, shop, name="Later", email="later@example.com")
    see_in_inbox(browser, shop, "later@example.com")
    assert "nobody@example.com" not in browser.find_element(By.TAG_NAME, "main").text


def test_an_address_that_no_email_can_reach_is_explained(browser: Chrome, shop: Any) -> None:
    order(browser, shop, name="Typo", email="two..dots@example.com")  # browsers let it pass
    problem = browser.find_element(By.CSS_SELECTOR, "[role=alert]").text
    assert "We cannot write to that address" in problem
    assert browser.find_element(By.NAME, "name").get_attribute("value") == "Typo"
    browser.get(f"{shop.url}/orders")
    assert "Typo" not in browser.find_element(By.TAG_NAME, "main").text


def test_a_newsletter_shows_its_progress_until_all_is_sent(browser: Chrome, shop: Any) -> None:
    post_newsletter(browser, shop, subject="Five hundred letters", readers=500)
    assert heading(browser) == "Five hundred letters"
    WebDriverWait(browser, 60).until(
        lambda driver: driver.find_element(By.CSS_SELECTOR, "[data-live][data-done]")
    )
    assert browser.find_element(By.CSS_SELECTOR, "[data-field=sent]").text == "500"
    bar = browser.find_element(By.TAG_NAME, "progress")
    assert bar.get_attribute("value") == bar.get_attribute("max") == "500"


def test_every_page_fits_a_phone(browser: Chrome, shop: Any) -> None:
    address = f"{'long-' * 12}ada@{'sub.' * 12}example.com"
    order(browser, shop, name="W" * 80, email=address)
    placed = browser.current_url
    post_newsletter(browser, shop, subject="N" * 200, readers=1)
    issue = browser.current_url
    see_in_inbox(browser, shop, "NNNN")
    browser.get(f"{shop.url}/inbox?q={address}")
    follow(browser, By.PARTIAL_LINK_TEXT, "Your order")
    pages = [placed, issue, browser.current_url, f"{shop.url}/inbox?q={'q' * 200}"]
    pages += [
        shop.url + path for path in ("/", "/orders", "/newsletter", "/password-reset", "/inbox")
    ]
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        for page in pages:
            browser.get(page)
            width = browser.execute_script("return document.documentElement.scrollWidth")
            assert width <= 390, f"{page} is {width} pixels wide"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_password_reset_link_works(browser: Chrome, shop: Any) -> None:
    browser.get(f"{shop.url}/password-reset")
    browser.find_element(By.NAME, "email").send_keys("forgetful@example.com")
    follow(browser, By.CSS_SELECTOR, ".letter .button")
    see_in_inbox(browser, shop, "forgetful@example.com")
    follow(browser, By.PARTIAL_LINK_TEXT, "forgetful@example.com")
    follow(browser, By.LINK_TEXT, "Text")
    text = browser.find_element(By.TAG_NAME, "pre").text
    browser.get(next(word for word in text.split() if "/password-reset/" in word))
    assert heading(browser) == "Your link works."


def test_hostile_names_and_subjects_stay_text(browser: Chrome, shop: Any) -> None:
    order(browser, shop, name=HOSTILE[:80], email="hostile@example.com")
    assert "<img src=x" in heading(browser)
    post_newsletter(browser, shop, subject=HOSTILE, readers=1)
    assert "<script>" in heading(browser)
    see_in_inbox(browser, shop, "hostile@example.com")
    see_in_inbox(browser, shop, "<script>")
    for page in ("/orders", "/inbox", "/newsletter"):
        browser.get(shop.url + page)
        assert not browser.find_elements(By.CSS_SELECTOR, "img[src=x]")
        assert "owned" not in browser.title


def test_a_hostile_email_runs_nothing(browser: Chrome, shop: Any) -> None:
    page = "<p>harmless</p><script>top.document.title='owned'; document.body.id='owned'</script>"
    name = Maildir(shop.inbox).add(
        b"From: x@example.com\r\nSubject: hostile\r\nContent-Type: text/html\r\n\r\n"
        + page.encode()
    )
    browser.get(f"{shop.url}/inbox/{name}")
    assert browser.title == "hostile · Foolscap"
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    assert browser.find_element(By.TAG_NAME, "p").text == "harmless"
    assert browser.find_element(By.TAG_NAME, "body").get_attribute("id") == ""
    browser.switch_to.default_content()
    browser.get(f"{shop.url}/inbox/{name}/html")  # opened by itself: the policy alone protects
    assert browser.find_element(By.TAG_NAME, "body").get_attribute("id") == ""


def test_an_order_needs_no_scripts(browser_without_scripts: Chrome, shop: Any) -> None:
    order(browser_without_scripts, shop, name="Plain", email="plain@example.com")
    assert heading(browser_without_scripts) == "Thank you, Plain."
    see_in_inbox(browser_without_scripts, shop, "plain@example.com")


def test_a_newsletter_shows_its_numbers_without_scripts(
    browser_without_scripts: Chrome, shop: Any
) -> None:
    post_newsletter(browser_without_scripts, shop, subject="Plain letters", readers=3)

    def refreshed(driver: Chrome) -> bool:
        follow(driver, By.LINK_TEXT, "Refresh")
        return driver.find_element(By.CSS_SELECTOR, "[data-field=sent]").text == "3"

    WebDriverWait(browser_without_scripts, DEADLINE).until(refreshed)
