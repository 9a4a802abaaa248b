"""The picture of a newsletter in the demo, whose worker is killed in its midst."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.browser.conftest import chromium
from tests.browser.pictures.picture import ROOT, Picture, shot

READERS = 20_000
SIZE = (960, 680)


def take(folder: Path) -> bytes:
    """Start the demo, send a newsletter, kill the worker as the page says, and take the page."""
    with demo(folder / "demo") as said:
        browser = chromium(folder / "chromium", scripts=True)
        try:
            show_a_killed_worker(browser, said)
            return shot(browser, *SIZE)
        finally:
            browser.quit()


@contextmanager
def demo(state: Path) -> Iterator[str]:
    """Run the demo, and hand over what it says at its start."""
    command = [sys.executable, "-m", "webapp.demo", "--state", str(state)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        yield said
    finally:
        process.terminate()
        process.wait(60)


def show_a_killed_worker(browser: Chrome, said: str) -> None:
    """Open a newsletter's page, and kill the worker, as the page says, while its emails go out."""
    shop = re.search(r"Shop +(http://[^/]+)/", said)
    assert shop is not None, said
    browser.get(f"{shop[1]}/newsletter")
    readers = browser.find_element(By.NAME, "readers")
    readers.clear()
    readers.send_keys(str(READERS))
    browser.find_element(By.CSS_SELECTOR, ".letter .button").click()
    wait = WebDriverWait(browser, 60, poll_frequency=0.05)
    wait.until(lambda _: number(browser, "sent") > READERS / 10)
    command = browser.find_element(By.CSS_SELECTOR, ".command").text
    subprocess.run(["bash", "-c", command], cwd=ROOT, check=True)
    wait.until(lambda _: "silent" in browser.find_element(By.CSS_SELECTOR, ".now").text)


def number(browser: Chrome, field: str) -> int:
    text = browser.find_element(By.CSS_SELECTOR, f"[data-field={field}]").text
    return int(re.sub(r"\D", "", text) or 0)


PICTURE = Picture(
    name="newsletter",
    sources=("webapp/templates/base.html", "webapp/templates/newsletter", "webapp/static"),
    take=take,
)
