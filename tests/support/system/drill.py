"""What the overview and `flask outbox check` say of a system, for a drill and for its page."""

from __future__ import annotations

import html
import re
from typing import Any

from outbox.dashboard import Dashboard, Role
from tests.support.system.app import db
from tests.support.system.drill_words import Words
from tests.support.system.system import System
from tests.support.waiting import wait_until

PROMISED = 30.0
"""Seconds in which a failure stands on the overview and in `check`: this is what is promised."""

LINE = re.compile(r'<p class="line" role="status">(.*?)</p>')
REMARKS = re.compile(r'<section class="sheet summary".*?</section>', re.DOTALL)


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
            pause=1.0,
        )
        told = self.command("check").splitlines()
        assert any(all(part in line for part in words.check) for line in told), told

    def sees_all_is_well(self) -> None:
        """Wait until the overview says so again."""
        wait_until(
            lambda: self.line() == "All is well.",
            2 * PROMISED,
            lambda: f"all is well: {self.remarks()}",
            pause=0.5,
        )
