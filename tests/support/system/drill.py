"""What the overview and `flask outbox check` say of a system, for a drill and for its page."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any

from outbox.dashboard import Dashboard, Role
from tests.support.system.app import db
from tests.support.system.system import System
from tests.support.waiting import wait_until

PROMISED = 30.0
"""Seconds in which a failure stands on the overview and in `check`: this is what is promised."""

LINE = re.compile(r'<p class="line" role="status">(.*?)</p>')
REMARKS = re.compile(r'<section class="sheet verdict".*?</section>', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Words:
    """How a failure is told; what differs from time to time is left out between the parts."""

    overview: tuple[str, ...]
    check: tuple[str, ...]


BEAT = Words(
    overview=("beat@", " is dead: it was seen ", "start one (celery -A yourapp beat)"),
    check=("error  beat@", " is dead: it was seen ", "start one (celery -A yourapp beat)"),
)
QUEUE = Words(
    overview=(
        "no living worker listens to outbox.normal, outbox.bulk",
        "start a worker (celery -A yourapp worker), or one with -Q outbox.normal,outbox.bulk",
    ),
    check=(
        "error  of the workers that run, none listens to outbox.normal, outbox.bulk",
        "or start a worker with -Q outbox.normal,outbox.bulk",
    ),
)
BROKER = Words(
    overview=(
        "no worker has got a task for ",
        "the broker is away, or they have different ones: start it, or mend broker_url",
        "until then emails wait, and none is lost",
    ),
    check=(
        "error  the broker redis://",
        "cannot be reached",
        "start it, or mend broker_url; until then emails wait, and none is lost",
    ),
)
PASSWORD = Words(
    overview=(
        "ALERT: ",
        " is halted since ",
        "auth: 535 ",
        "mend its user name or password, and restart the workers: they try it at once",
    ),
    check=(
        "error  ALERT: ",
        " is halted since ",
        "auth: 535 ",
        "mend its user name or password, and restart the workers: they try it at once",
    ),
)
THROTTLE = Words(
    overview=(
        " is halted since ",
        "it throttles: no email is lost or charged, and it is tried again by itself; lower its rate"
        " if it stays so",
    ),
    check=(
        "warn   ",
        " is halted since ",
        "it throttles: no email is lost or charged, and it is tried again by itself; lower its rate"
        " if it stays so",
    ),
)
POISON = Words(
    overview=("email ", " was with 2 workers that were lost: "),
    check=("warn   email ", " was with 2 workers that were lost: "),
)
SETTLE = Words(
    overview=("workers that were lost: see whether it went out, and settle it",),
    check=("workers that were lost: see whether it went out, and settle it",),
)
RESTORED = Words(
    overview=(
        "nothing is sent: these tables were last used in another database",
        "if it is a copy or a restored backup, run `flask outbox restored`, which holds what waits",
    ),
    check=(
        "error  nothing is sent: these tables were last used in another database",
        "if it is a copy or a restored backup, run `flask outbox restored`, which holds what waits",
    ),
)
HELD = Words(
    overview=("held since a restore",),
    check=("held since a restore (flask outbox held, flask outbox release)",),
)


class Watcher:
    """A person with the overview before them, and with a shell."""

    def __init__(self, system: System) -> None:
        self.system = system
        if "outbox_dashboard" not in system.app.blueprints:
            Dashboard(access=lambda: Role.ACT).init_app(system.app)
        self._visitor = system.app.test_client()

    def line(self) -> str:
        """Return the line at the top of the overview."""
        found = LINE.search(self.page())
        assert found is not None
        return found[1]

    def page(self, path: str = "/outbox/") -> str:
        """Return a page of the dashboard."""
        answer = self._visitor.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def remarks(self) -> str:
        """Return what the overview says is wrong, as a person reads it, and the links in it."""
        found = REMARKS.search(self.page())
        assert found is not None
        return html.unescape(found[0])

    def command(self, *words: str) -> str:
        """Return what `flask outbox …` prints."""
        db.session.rollback()  # the test's own transaction may have seen an older state
        return self.system.app.test_cli_runner().invoke(args=["outbox", *words]).output

    def press(self, path: str, page: str, **fields: Any) -> None:
        """Send a form of a page, as its button does."""
        token = re.search(r'name="csrf_token" value="([^"]+)"', self.page(page))
        assert token is not None
        done = self._visitor.post(path, data=fields | {"csrf_token": token[1]})
        assert done.status_code in (302, 303), done.text

    def sees(self, words: Words) -> None:
        """Wait until both places tell it; they have as long as is promised."""
        wait_until(
            lambda: all(part in self.remarks() for part in words.overview),
            PROMISED,
            lambda: f"{words.overview} on the overview: {self.remarks()}",
            pause=0.5,
        )
        told = self.command("check").splitlines()
        assert any(all(part in line for part in words.check) for line in told), told

    def sees_all_is_well(self) -> None:
        """Wait until the overview says so again."""
        wait_until(
            lambda: self.line() == "All is well.",
            2 * PROMISED,
            lambda: f"all is well: {self.remarks()}",
            pause=0.3,
        )
