"""Takes the README's picture of the demo anew: `python -m tests.browser.pictures`.

It starts the demo, sends a newsletter, kills the worker in its midst, and takes the page.
`docs/images/demo.txt` keeps a digest of the pages' sources, so that a test can tell when the
picture is of an older demo.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.browser.conftest import chromium

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
PICTURE = IMAGES / "newsletter.webp"
DIGEST = IMAGES / "demo.txt"
SOURCES = ("webapp/templates/base.html", "webapp/templates/newsletter", "webapp/static")
READERS = 20_000
QUALITY = 82  # of 100


def digest() -> str:
    """Return a digest of all that the picture shows."""
    total = hashlib.sha256()
    for source in SOURCES:
        path = ROOT / source
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                total.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return total.hexdigest() + "\n"


def main() -> None:
    """Take the picture."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory)
        with demo(state / "demo") as said:
            browser = chromium(state / "chromium", scripts=True)
            try:
                show_a_killed_worker(browser, said)
                PICTURE.write_bytes(picture(browser))
            finally:
                browser.quit()
    DIGEST.write_text(digest())


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


def picture(browser: Chrome) -> bytes:
    """Return the page as a WebP, at twice the density of its pixels."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 960, "height": 680, "deviceScaleFactor": 1.5, "mobile": False},
    )
    browser.execute_script("document.documentElement.style.scrollbarWidth = 'none'")
    options = {"format": "webp", "quality": QUALITY}
    return base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", options)["data"])


if __name__ == "__main__":
    main()
