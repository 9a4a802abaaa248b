"""`make demo`: a newcomer's order is in the inbox at once, and Ctrl-C leaves nothing."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.servers.missing import missing

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
START = 150.0
STOP = 30.0  # the demo itself promises 5 s, on a machine that is not busy with tests
FOREIGN = {
    "DATABASE_URL_FILE": "/of/a/real/outbox",
    "DATABASE_PASSWORD": "of a real outbox",
    "MAIL_USE_SSL": "1",
    "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
}
"""What a person's shell may have for a real outbox: the demo must not care."""

LEASE = 6  # seconds, so that a lost worker's emails need not be waited for long


class Visitor:
    """A browser without scripts: cookies, forms, links."""

    def __init__(self, shop: str) -> None:
        self.shop = shop
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(cookies)

    def get(self, path: str) -> str:
        with self.opener.open(self.shop + path, timeout=10) as answer:
            return str(answer.read().decode())

    def filled(self, page: str, **fields: str) -> bytes:
        """Fill the form of a page."""
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]+)"', self.get(page)))
        return urllib.parse.urlencode(hidden | fields).encode()

    def form(self, email: str, *, card: str = "works") -> bytes:
        """Fill the order form."""
        return self.filled("/", product="ink", quantity="2", name="Ада", email=email, card=card)

    def newsletter(self, readers: int) -> None:
        form = self.filled("/newsletter", subject="News", text="Ink.", readers=str(readers))
        assert self.submit(form, "/newsletter") == 200

    def progress(self) -> dict[str, Any]:
        """Return what the page of the first newsletter shows."""
        return dict(json.loads(self.get("/newsletter/1/progress")))

    def submit(self, form: bytes, to: str = "/orders") -> int:
        """Send the form, follow the answer's redirect, and return the last status."""
        try:
            with self.opener.open(self.shop + to, form, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def order(self, email: str, *, card: str = "works") -> int:
        return self.submit(self.form(email, card=card))

    def mails_to(self, address: str) -> int:
        return self.get(f"/inbox?q={address}").count(f'class="to">{address}<')

    def has_mail(self, address: str) -> bool:
        return self.mails_to(address) > 0


class Demo:
    """A running `python -m webapp.demo` and what its banner says."""

    def __init__(self, process: subprocess.Popen[str], state: Path, banner: str) -> None:
        self.process = process
        self.state = state
        self.banner = banner
        self.visitor = Visitor(re.findall(r"Shop +(http://[^/]+)/", banner)[0])

    def printed(self, begins: str) -> str:
        """Return a command that the banner prints after these words, as it is to be typed."""
        found = re.search(rf"{re.escape(begins)} +(.*?)(?: {{3,}}|$)", self.banner, re.MULTILINE)
        assert found is not None, self.banner
        return found[1]

    def type(self, command: str) -> str:
        """Type a command into a terminal in the repository's folder; return what it prints."""
        answer = subprocess.run(
            command,
            shell=True,
            cwd=ROOT,
            env=os.environ | FOREIGN,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer
        return answer.stdout

    def supervisorctl(self, *words: str) -> str:
        return self.type(" ".join((str(self.state / "supervisorctl"), *words)))

    def remaining(self) -> list[str]:
        """Return every process that names this demo's state in its command or environment."""
        found = []
        for process in psutil.process_iter():
            try:
                words = [*process.cmdline(), *process.environ().values()]
            except psutil.Error:
                continue
            if process.pid != os.getpid() and any(str(self.state) in word for word in words):
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
        return found


def wait_for(condition: Callable[[], bool], *, seconds: float, what: str) -> float:
    """Wait until the condition holds and return how long it took."""
    began = time.monotonic()
    pause = threading.Event()
    while not condition():
        assert time.monotonic() - began < seconds, f"no {what} within {seconds} s"
        pause.wait(0.02)
    return time.monotonic() - began


@contextmanager
def running_demo(state: Path, *words: str, **environment: str) -> Iterator[Demo]:
    command = [sys.executable, "-m", "webapp.demo", "--state", str(state), *words]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | FOREIGN | environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    late = threading.Timer(START, process.terminate)
    late.start()
    lines: list[str] = []
    try:
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C stops" in line:
                break
        late.cancel()
        banner = "".join(lines)
        assert "Shop" in banner, banner
        yield Demo(process, state, banner)
    finally:
        late.cancel()
        process.terminate()
        process.wait(STOP)
        process.stdout.close()


@pytest.fixture
def state() -> Iterator[Path]:
    """A directory that PostgreSQL's own user can reach: another run of pytest locks `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="outbox-demo-") as directory:
        yield Path(directory) / "demo"


@pytest.mark.parametrize("database", ["sqlite", "mariadb"])  # the next test is on PostgreSQL
def test_an_order_is_in_the_inbox_and_ctrl_c_leaves_no_process(state: Path, database: str) -> None:
    if database == "mariadb" and not any(map(shutil.which, ("mariadbd", "/usr/sbin/mariadbd"))):
        missing("MariaDB", "apt install mariadb-server")
    with running_demo(state, "--db", database) as demo:
        form = demo.visitor.form("double-click@example.com")
        with ThreadPoolExecutor(2) as clicks:
            assert list(clicks.map(demo.visitor.submit, [form, form])) == [200, 200]
        wait_for(lambda: demo.visitor.has_mail("double-click@example.com"), seconds=5, what="mail")

        assert demo.visitor.order("ada@example.com") == 200
        took = wait_for(lambda: demo.visitor.has_mail("ada@example.com"), seconds=30, what="mail")
        print(f"order to inbox: {took * 1000:.0f} ms on {database}")
        assert demo.visitor.mails_to("double-click@example.com") == 1
        newest = re.findall(r'href="(/orders/[0-9]+)"', demo.visitor.get("/orders"))[0]
        found = re.findall(r'href="(/inbox/find[^"]+)"', demo.visitor.get(newest))[0]
        assert "Invoice F-0" in demo.visitor.get(found)

        figures = json.loads(demo.type(demo.printed("another terminal:\n   ") + " --json"))
        assert figures["statuses"]["sent"] == 2
        assert_private(demo)
        demo.visitor.newsletter(5000)
        wait_for(lambda: demo.visitor.progress()["sent"] > 0, seconds=30, what="progress")
        os.killpg(demo.process.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
        assert demo.process.wait(STOP) == 0
        assert demo.remaining() == []
        assert demo.process.stdout is not None
        assert "Stopping" in demo.process.stdout.read()


def assert_private(demo: Demo) -> None:
    """Nobody else on the host can reach the demo's state or its Redis."""
    assert stat.S_IMODE(demo.state.stat().st_mode) == 0o700
    mine = [psutil.Process(int(line.split()[0])) for line in demo.remaining()]
    assert len(mine) > 5
    listening = {
        connection.laddr.port
        for process in mine
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert len(listening) == 3, "web, Flower and the SMTP server, and nothing else"


def test_a_killed_workers_emails_are_shown_in_doubt_and_rescued(state: Path) -> None:
    settings = {"OUTBOX_LEASE": str(LEASE), "DEMO_REDIS": "fakeredis"}  # as where none is installed
    with running_demo(state, "--db", "postgres", **settings) as demo:
        assert demo.visitor.order("declined@example.com", card="declined") == 402
        first = demo.supervisorctl("pid", "worker")
        inbox = psutil.Process(int(demo.supervisorctl("pid", "inbox")))
        demo.visitor.newsletter(3000)
        wait_for(lambda: demo.visitor.progress()["sent"] > 0, seconds=30, what="progress")
        inbox.suspend()  # else a fast worker has sent all 3,000 before it is killed
        demo.type(demo.printed("kill -9 the worker"))
        silent = "A worker has gone silent: it no longer renews its lease."
        wait_for(
            lambda: demo.visitor.progress()["headline"] == silent, seconds=30, what="word of it"
        )
        assert 'class="silent"' in demo.visitor.get("/newsletter/1")
        inbox.resume()
        wait_for(lambda: demo.supervisorctl("pid", "worker") != first, seconds=30, what="worker")

        demo.supervisorctl("stop", "inbox")
        assert demo.visitor.order("during-the-outage@example.com") == 200
        demo.supervisorctl("start", "inbox")
        wait_for(lambda: demo.visitor.progress()["done"], seconds=120, what="end of the newsletter")
        assert demo.visitor.progress()["sent"] == 3000
        wait_for(
            lambda: demo.visitor.has_mail("during-the-outage@example.com"), seconds=90, what="mail"
        )
        assert not demo.visitor.has_mail("declined@example.com")
        assert demo.visitor.has_mail("reader-03000@example.com")

        demo.process.send_signal(signal.SIGTERM)  # to the runner alone
        assert demo.process.wait(STOP) == 0
        assert demo.remaining() == []


def test_what_the_demo_cannot_use_it_names_in_one_line(state: Path) -> None:
    state.mkdir()
    (state / "thesis.txt").touch()
    command = [sys.executable, "-m", "webapp.demo", "--state", str(state)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (1, "")
    [line] = answer.stdout.splitlines()
    assert "not a demo's" in line
    assert (state / "thesis.txt").exists()
