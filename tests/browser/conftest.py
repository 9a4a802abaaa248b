"""A real Chromium for all the browser tests, and a demo."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from tests.browser.office import Office, complaints
from tests.browser.serving import serving
from tests.support.shop.shop import Shops

ROOT = Path(__file__).resolve().parents[2]
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)


@dataclass(frozen=True, kw_only=True)
class RunningShop:
    """Where the demo answers, and where it keeps the emails it caught."""

    url: str
    inbox: Path


@pytest.fixture(scope="module")  # its worker and beat are busy all the time
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShop]:
    """Run the demo for all tests of a file."""
    state = tmp_path_factory.mktemp("browser") / "demo"
    command = [sys.executable, "-m", "webapp.demo", "--state", str(state)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    late = threading.Timer(150, process.terminate)
    late.start()
    try:
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C stops" in line:
                break
        late.cancel()
        address = re.search(r"Shop +(http://[^/]+)/", said)
        assert address is not None, said
        yield RunningShop(url=address[1], inbox=state / "inbox")
    finally:
        late.cancel()
        process.terminate()
        process.wait(45)
        process.stdout.close()


@pytest.fixture(scope="session")
def _browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium"), scripts=True) as driver:
        yield driver


@pytest.fixture
def browser(_browser: Chrome) -> Iterator[Chrome]:
    """A browser as people have it."""
    yield _browser
    _browser.get("about:blank")  # a page that moves would cost processor time until the end


@pytest.fixture(scope="session")
def _browser_without_scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium"), scripts=False) as driver:
        yield driver


@pytest.fixture
def browser_without_scripts(_browser_without_scripts: Chrome) -> Iterator[Chrome]:
    """A browser in which JavaScript is switched off. No cookie is left of the test before."""
    yield _browser_without_scripts
    _browser_without_scripts.delete_all_cookies()
    _browser_without_scripts.get("about:blank")


def chromium(profile: Path, *, scripts: bool) -> Chrome:
    """Start Chromium with an empty profile."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        missing("Chromium or its driver is missing")
    options = Options()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    if not scripts:
        setting = "profile.managed_default_content_settings.javascript"
        options.add_experimental_option("prefs", {setting: 2})
    return Chrome(options=options, service=Service(driver))


def missing(what: str) -> NoReturn:
    """Skip on a person's machine, fail in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    shops = Shops(url=f"sqlite:///{tmp_path}/shop.db")
    made = Office(shops)
    with serving(made.server):
        yield made
    made.elsewhere.close()
    shops.close()


@pytest.fixture
def see(browser: Chrome, office: Office) -> Callable[[str], None]:
    """Opens a page of the dashboard."""
    complaints(browser)  # those of before

    def get(path: str) -> None:
        browser.get(f"{office.origin}/outbox{path}")

    return get
