"""The dashboard as a support person uses it, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from outbox import Status
from outbox.dashboard import Role
from outbox.dashboard.overview import page
from outbox.flask_ext.management import corrections
from outbox.store.queries import id_steps
from outbox.worker.jobs import run_jobs
from tests.browser.axe import OF_COLOURS, hindrances, load
from tests.browser.leaving import DEADLINE, follow, leaving
from tests.browser.office import LONG, NEWS, Office, complaints, notice, press, unfold
from tests.integration.dashboard.desk import HOSTILE
from tests.support.shop.shell import stuck

pytestmark = pytest.mark.long

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}


def test_a_person_resolves_retries_cancels_and_sends_again(
    browser: Chrome, office: Office, see: Callable[[str], None]
) -> None:
    shop = office.desk.shop
    see("/messages?status=unknown&domain=customers.example")
    follow(browser, By.CSS_SELECTOR, ".rows a")
    unfold(browser, "It arrived")
    press(browser, "It arrived: mark it as sent")
    assert "the message is sent" in notice(browser)
    assert shop.status(office.unknown) is Status.SENT
    see(f"/messages/{office.hostile}")
    unfold(browser, "Retry")
    press(browser, "Retry it")
    assert shop.status(office.hostile) is Status.PENDING
    unfold(browser, "Cancel")
    press(browser, "Cancel it")
    assert shop.status(office.hostile) is Status.CANCELLED
    unfold(browser, "Send again")
    press(browser, "Send it as a new message")
    assert "a new message" in notice(browser)
    see("/audit")
    assert [row.text for row in browser.find_elements(By.CSS_SELECTOR, "td:nth-child(3)")] == [
        "send again", "cancel", "retry", "resolve as sent",
    ]  # fmt: skip
    assert complaints(browser) == []


def test_a_person_suppresses_an_address_and_takes_it_off(
    browser: Chrome, office: Office, see: Callable[[str], None], tmp_path: Path
) -> None:
    see(f"/messages/{office.unknown}")
    unfold(browser, "Suppress")
    press(browser, "Suppress a@customers.example")
    assert "a@customers.example is on the list" in notice(browser)
    press(browser, "Remove")
    see("/suppressed")
    browser.find_element(By.NAME, "new").send_keys("no address")
    press(browser, "Add it")
    assert "local-part@domain" in notice(browser)
    file = tmp_path / "list.csv"
    file.write_text("c@x.example,left\nwrong\n")
    browser.find_element(By.NAME, "file").send_keys(str(file))
    press(browser, "Import it")
    assert "line 2:" in notice(browser)
    listed = [one.address for one in office.desk.shop.outbox.suppressed()]
    assert listed == ["c@x.example", LONG]
    see("/pauses")
    press(browser, "Pause")
    assert [one.scope for one in office.desk.shop.outbox.paused()] == ["all"]
    press(browser, "Resume")
    assert office.desk.shop.outbox.paused() == ()
    assert complaints(browser) == []


def test_a_person_sends_all_that_failed_again(
    browser: Chrome, office: Office, see: Callable[[str], None]
) -> None:
    def shown() -> str:
        return browser.find_element(By.ID, "now").text

    shop = office.desk.shop
    others = [stuck(shop, Status.FAILED) for _ in range(3)]
    failed = shop.statuses().count("failed")
    see("/messages?status=failed")
    follow(browser, By.PARTIAL_LINK_TEXT, "Retry them")
    assert f"Retry: {failed} messages" in browser.find_element(By.TAG_NAME, "h1").text
    press(browser, "Retry them")
    assert "0 due again" in shown()
    press(browser, "Stop")
    press(browser, "Go on")
    assert {shop.status(one) for one in others} == {Status.FAILED}
    run_jobs(shop.runtime)
    wait = WebDriverWait(browser, DEADLINE, poll_frequency=0.05)
    wait.until(lambda _: f"{failed} due again" in shown())
    assert not browser.find_elements(By.TAG_NAME, "button")
    assert {shop.status(one) for one in others} == {Status.PENDING}
    see("/jobs")
    assert f"{failed} of {failed} messages" in browser.find_element(By.TAG_NAME, "table").text
    assert complaints(browser) == []


def test_a_person_stops_a_newsletter_and_the_page_goes_on_by_itself(
    browser: Chrome,
    office: Office,
    see: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(id_steps, "LOOK", 10)
    monkeypatch.setattr(corrections, "MOST_CHANGED", 10)
    see("/newsletters")
    follow(browser, By.LINK_TEXT, NEWS)
    unfold(browser, "Stop the rest")
    press(browser, "Stop the rest")
    wait = WebDriverWait(browser, DEADLINE, poll_frequency=0.05)
    wait.until(lambda b: "34 messages are cancelled." in b.find_element(By.TAG_NAME, "main").text)
    assert office.desk.shop.outbox.counts(tag=NEWS).get(Status.PENDING) is None
    follow(browser, By.LINK_TEXT, "See what is failed")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".rows li")) == 4
    assert complaints(browser) == []


def test_a_person_releases_what_is_held_since_a_restore(
    browser: Chrome, office: Office, see: Callable[[str], None]
) -> None:
    office.restore()
    see("/")
    follow(browser, By.LINK_TEXT, "See what is held")
    follow(browser, By.CSS_SELECTOR, f"[aria-label='Release {NEWS}, bulk']")
    assert "34 messages are released" in notice(browser)
    browser.find_element(By.NAME, "scheduled").click()
    press(browser, "Release these")
    assert "nothing was released" in notice(browser)
    unfold(browser, "Release everything")
    press(browser, "Release everything")
    assert office.desk.shop.outbox.held() == ()
    assert "Nothing is held" in browser.find_element(By.TAG_NAME, "main").text
    assert complaints(browser) == []


def test_a_group_of_problems_leads_to_its_own_messages(
    browser: Chrome, office: Office, see: Callable[[str], None]
) -> None:
    see("/problems")
    for link in browser.find_elements(By.XPATH, "//a[contains(., 'of this group')]"):
        if HOSTILE in link.find_element(By.XPATH, "./ancestor::li").text:
            with leaving(browser):
                link.click()
            break
    (row,) = browser.find_elements(By.CSS_SELECTOR, ".rows a")
    assert (row.get_attribute("href") or "").endswith(f"/messages/{office.hostile}")
    assert complaints(browser) == []


def test_what_strangers_wrote_runs_nothing_and_loads_nothing(
    browser: Chrome, office: Office, see: Callable[[str], None]
) -> None:
    for path in office.paths:
        see(path)  # an open dialog would raise
        assert not browser.find_elements(By.CSS_SELECTOR, "img[src=x]")
    assert complaints(browser) == []
    see(f"/messages/{office.hostile}")
    frame = browser.find_element(By.TAG_NAME, "iframe")
    browser.execute_script("arguments[0].scrollIntoView()", frame)
    browser.switch_to.frame(frame)
    WebDriverWait(browser, DEADLINE).until(lambda b: b.find_elements(By.ID, "harmless"))
    for link in ("Track", "Top"):
        browser.find_element(By.LINK_TEXT, link).click()
    browser.find_element(By.TAG_NAME, "button").click()
    browser.switch_to.default_content()
    see(f"/messages/{office.hostile}/html")  # opened by itself: the policy alone protects
    browser.find_element(By.LINK_TEXT, "Track").click()
    assert len(browser.window_handles) == 1
    assert office.loaded == []
    assert not office.elsewhere.is_reached


def fits(browser: Chrome) -> bool:
    """Return whether the page is no wider than a phone."""
    width: int = browser.execute_script("return document.documentElement.scrollWidth")
    return width <= 390


def test_nothing_hinders_anybody_and_each_page_fits_a_phone(
    browser: Chrome, office: Office, see: Callable[[str], None]
) -> None:
    office.restore()
    found: list[str] = []
    wait = WebDriverWait(browser, DEADLINE, poll_frequency=0.05)
    try:
        for path in office.paths:
            see(path)
            load(browser)
            # The two schemes differ in the values of colours (tokens.css), and in nothing else.
            for scheme, rules in (("light", ()), ("dark", OF_COLOURS)):
                emulate(browser, scheme)
                found += [f"{path} in {scheme}: {one}" for one in hindrances(browser, *rules)]
        office.desk.shop.later(120)  # a page has more to tell of workers that are silent
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
        for path in office.paths:
            see(path)
            wait.until(fits, f"{path} is wider than a phone")
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert found == []


def emulate(browser: Chrome, scheme: str) -> None:
    """Show the page in this colour scheme, at once: no colour is on its way to another."""
    wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in wanted.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def test_the_overview_tells_what_changes_while_somebody_looks(
    browser: Chrome, office: Office, see: Callable[[str], None]
) -> None:
    def shown(what: str) -> str:
        return browser.find_element(By.CSS_SELECTOR, what).text

    wait = WebDriverWait(browser, DEADLINE, poll_frequency=0.05)
    see("/")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".chart canvas")) == 3
    unfold(browser, "As a table")
    assert "the priority bulk is paused" not in shown("#now")
    office.desk.shop.outbox.pause("bulk")
    wait.until(lambda _: "the priority bulk is paused" in shown("#now"))
    browser.execute_script("document.body.dispatchEvent(new Event('refresh-figures'))")
    assert browser.find_element(By.CSS_SELECTOR, ".as-table[open]")
    office.desk.role = None
    wait.until(lambda _: "could not be loaded again" in shown("#stale"))
    assert "the priority bulk is paused" in shown("#now")
    assert [one for one in complaints(browser) if "404" not in one] == []


def test_the_hint_of_a_part_that_fails_stays_while_the_other_one_is_loaded_again(
    browser: Chrome,
    office: Office,
    see: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refresh(name: str) -> None:
        browser.execute_script(f"document.body.dispatchEvent(new Event('{name}'))")

    def hint() -> bool:
        return browser.find_element(By.ID, "stale").is_displayed()

    wait = WebDriverWait(browser, DEADLINE, poll_frequency=0.05)
    see("/")
    with monkeypatch.context() as broken:
        broken.setattr(page, "charts_of", None)
        refresh("refresh-figures")
        wait.until(lambda _: hint())
        office.desk.shop.outbox.pause("urgent")
        refresh("refresh")
        paused = "the priority urgent is paused"
        wait.until(lambda _: paused in browser.find_element(By.ID, "now").text)
        assert hint()
    refresh("refresh-figures")
    wait.until(lambda _: not hint())
    office.desk.shop.outbox.resume("urgent")


def test_it_works_without_scripts(browser_without_scripts: Chrome, office: Office) -> None:
    browser = browser_without_scripts
    browser.get(f"{office.origin}/outbox/messages/{office.unknown}")
    unfold(browser, "It did not arrive")
    press(browser, "It did not: mark it as failed")
    assert office.desk.shop.status(office.unknown) is Status.FAILED
    assert browser.find_element(By.CSS_SELECTOR, "[data-zone]").text == "UTC"
    browser.get(f"{office.origin}/outbox/")
    unfold(browser, "As a table")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#table-accepted tbody tr")) == 60


def test_a_person_who_may_look_sees_no_button(
    browser: Chrome, office: Office, see: Callable[[str], None]
) -> None:
    office.desk.role = Role.VIEW
    for path in office.paths:
        see(path)
        assert not browser.find_elements(By.CSS_SELECTOR, "form[method=post]")
        assert not browser.find_elements(By.TAG_NAME, "iframe")
