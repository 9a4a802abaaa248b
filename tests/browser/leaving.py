"""Clicks that lead to another page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

DEADLINE = 10.0


@contextmanager
def leaving(browser: Chrome) -> Iterator[None]:
    """Wait until the page of the beginning is gone and the next one is loaded.

    The old page carries a mark. Asking for one of its elements instead ends in an error of the
    driver's own, if the page goes while the driver looks at it.
    """
    browser.execute_script("window.left = false")
    yield
    WebDriverWait(
        browser, DEADLINE, poll_frequency=0.05, ignored_exceptions=[WebDriverException]
    ).until(_has_loaded_another)


def follow(browser: Chrome, by: str, what: str) -> None:
    """Click what leads to another page, and wait for that."""
    with leaving(browser):
        browser.find_element(by, what).click()


def _has_loaded_another(browser: Chrome) -> bool:
    script = "return window.left === undefined && document.readyState === 'complete'"
    return bool(browser.execute_script(script))
