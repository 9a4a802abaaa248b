"""The shop as a visitor and as the readers of its newsletter see it."""

from __future__ import annotations

import base64
import http.cookiejar
import json
import re
import urllib.parse
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until

PAGE = 1000


def _opener() -> urllib.request.OpenerDirector:
    jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    return urllib.request.build_opener(jar)


@dataclass(frozen=True, kw_only=True)
class Shop:
    """A visitor of the shop on `web`, who also sees what `mailpit` received."""

    web: str
    mailpit: str
    env: Path  # compose's; a newsletter needs the password in there
    opener: urllib.request.OpenerDirector = field(default_factory=_opener)

    def post_newsletter(self, readers: int) -> str:
        """Post an issue as the form does; return its page's path."""
        fields = {"subject": "Ink", "text": "It is in.", "readers": str(readers)}
        return self._submit("/newsletter", "/newsletter", fields)

    def order(self, name: str, email: str) -> str:
        """Order some ink as the form does; return the order's path."""
        fields = {"product": "ink", "quantity": "2", "card": "works", "name": name, "email": email}
        return self._submit("/", "/orders", fields)

    def _submit(self, page: str, target: str, fields: dict[str, str]) -> str:
        with self.opener.open(self._asking(page), timeout=30) as answer:
            text = answer.read().decode()
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]+)"', text))
        form = urllib.parse.urlencode(hidden | fields).encode()
        with self.opener.open(self._asking(target), form, timeout=60) as answer:
            address: str = answer.url
        return urllib.parse.urlsplit(address).path

    def wait_done(self, issue: str, seconds: float) -> dict[str, Any]:
        """Wait until the issue is finished; return its numbers."""
        wait_until(
            lambda: self.progress(issue)["done"],
            seconds,
            lambda: f"the end: {self.progress(issue)}",
        )
        return self.progress(issue)

    def progress(self, issue: str) -> dict[str, Any]:
        """Return the numbers that the issue's page shows."""
        return self._json(self._asking(f"{issue}/progress"))

    def received(self) -> int:
        """Return how many emails have been received so far."""
        return int(self._json(f"{self.mailpit}/api/v1/messages?limit=1")["total"])

    def copies(self) -> Counter[str]:
        """Return how many copies each address has received so far."""
        copies: Counter[str] = Counter()
        for start in range(0, self.received(), PAGE):
            page = self._json(f"{self.mailpit}/api/v1/messages?start={start}&limit={PAGE}")
            copies.update(to["Address"] for email in page["messages"] for to in email["To"])
        return copies

    def _asking(self, path: str) -> urllib.request.Request:
        """Return the request for a page of the shop, with the password of its staff."""
        [password] = re.findall(r"^DASHBOARD_PASSWORD=(.+)$", self.env.read_text(), re.MULTILINE)
        secret = base64.b64encode(f"staff:{password}".encode()).decode()
        return urllib.request.Request(self.web + path, headers={"Authorization": f"Basic {secret}"})

    def _json(self, url: str | urllib.request.Request) -> dict[str, Any]:
        with self.opener.open(url, timeout=30) as answer:
            value: dict[str, Any] = json.loads(answer.read())
            return value
