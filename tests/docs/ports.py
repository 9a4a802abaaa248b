"""The ports that the pages name, and those that this run has in their place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tests.support.servers.ports import free_port

REDIS, SMTP, WEB, OTHER_WEB = "6379", "1025", "5000", "8000"
_USUAL = re.compile(rf"(?<=:)({REDIS}|{WEB}|{OTHER_WEB})\b|\b{SMTP}\b")


@dataclass
class Ports:
    """Several pages are followed at a time, and a port is one page's only.

    It is the one liberty that is taken with a page's words.
    """

    real: dict[str, int] = field(default_factory=dict)  # the usual port: the one of this run

    def __getitem__(self, usual: str) -> int:
        return self.real.setdefault(usual, free_port())

    def ours(self, text: str) -> str:
        """Return a page's text with the ports of this run."""
        return _USUAL.sub(lambda found: str(self[found[0]]), text)

    def usual(self, printed: str) -> str:
        """Return what was printed, with the ports that a reader of the page would see."""
        for usual, real in self.real.items():
            printed = re.sub(rf"\b{real}\b", usual, printed)
        return printed
