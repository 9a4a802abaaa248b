"""`make demo`: a newcomer's order is in the inbox at once, and Ctrl-C leaves nothing."""

from __future__ import annotations

import http.cookiejar
import os
import re
import signal
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

import psutil
import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
START = 150.0
STOP = 45.0


class Visitor:
    """A browser without scripts: cookies, forms, links."""

    def __init__(self, shop: str) -> None:
        self.shop = shop
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self.opener = urllib.request.build_opener(cookies)

    def get(self, path: str) -> str:
        with self.opener.open(self.shop + path, timeout=10) as answer:
            return str(answer.read().decode())

    def form(self, email: str, *, card: str = "works") -> bytes:
        """Fill the page's order form."""
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]+)"', self.get("/")))
        fields = {"product": "ink", "quantity": "2", "name": "Ada", "email": email, "card": card}
        return urllib.parse.urlencode(hidden | fields).encode()

    def submit(self, form: bytes) -> int:
        """Send the form, follow the answer's redirect, and return the last status."""
        try:
            with self.opener.open(self.shop + "/orders", form, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def order(self, email: str, *, card: str = "works") -> int:
        return self.submit(self.form(email, card=card))

    def mails_to(self, address: str) -> int:
        return self.get("/inbox").count(address)

    def has_mail(self, address: str) -> bool:
        return self.mails_to(address) > 0


class Demo:
    """A running `python -m webapp.demo` and what its banner says."""

    def __init__(self, process: subprocess.Popen[str], state: Path, banner: str) -> None:
        self.process = process
        self.state = state
        self.visitor = Visitor(re.findall(r"Shop +(http://[^/]+)/", banner)[0])

    def supervisorctl(self, *words: str) -> str:
        command = [sys.executable, "-m", "supervisor.supervisorctl"]
        command += ["-c", str(self.state / "supervisord.conf"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

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
def running_demo(state: Path, *words: str) -> Iterator[Demo]:
    command = [sys.executable, "-m", "webapp.demo", "--state", str(state), *words]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    late = threading.Timer(START, process.terminate)
    late.start()
    lines: list[str] = []
    try:
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
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


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_an_order_is_in_the_inbox_and_ctrl_c_leaves_no_process(state: Path, database: str) -> None:
    with running_demo(state, "--db", database) as demo:
        form = demo.visitor.form("double-click@example.com")
        with ThreadPoolExecutor(2) as clicks:
            assert list(clicks.map(demo.visitor.submit, [form, form])) == [200, 200]
        wait_for(lambda: demo.visitor.has_mail("double-click@example.com"), seconds=5, what="mail")

        assert demo.visitor.order("ada@example.com") == 200
        took = wait_for(lambda: demo.visitor.has_mail("ada@example.com"), seconds=30, what="mail")
        print(f"order to inbox: {took * 1000:.0f} ms on {database}")
        assert demo.visitor.mails_to("double-click@example.com") == 1

        assert demo.remaining()
        os.killpg(demo.process.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
        assert demo.process.wait(STOP) == 0
        assert demo.remaining() == []


def test_the_demo_survives_its_worker_and_its_smtp_server_and_sigterm_ends_it(state: Path) -> None:
    with running_demo(state) as demo:
        assert demo.visitor.order("declined@example.com", card="declined") == 402

        first = int(demo.supervisorctl("pid", "worker"))
        psutil.Process(first).kill()
        assert demo.visitor.order("after-the-kill@example.com") == 200
        wait_for(
            lambda: demo.visitor.has_mail("after-the-kill@example.com"), seconds=60, what="mail"
        )
        assert int(demo.supervisorctl("pid", "worker")) != first

        demo.supervisorctl("stop", "inbox")
        assert demo.visitor.order("during-the-outage@example.com") == 200
        demo.supervisorctl("start", "inbox")
        wait_for(
            lambda: demo.visitor.has_mail("during-the-outage@example.com"), seconds=90, what="mail"
        )
        assert not demo.visitor.has_mail("declined@example.com")

        demo.process.send_signal(signal.SIGTERM)  # to the runner alone
        assert demo.process.wait(STOP) == 0
        assert demo.remaining() == []


def test_a_second_demo_on_the_same_state_says_so(state: Path) -> None:
    state.mkdir()
    (state / "supervisord.pid").write_text(f"{os.getpid()}\n")
    command = [sys.executable, "-m", "webapp.demo", "--state", str(state)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "runs in" in answer.stdout
