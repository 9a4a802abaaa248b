"""A web process under load: requests that commit, roll back, or are killed halfway.

It notes what it was told of each order in a file of its own, one line an event: order's reference,
what became of it. `begun` without another line means that nobody was told anything.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.soak.classes import (
    CLOSED_DOMAIN,
    DENIED_DOMAIN,
    HUGE,
    LARGE,
    MOODY_DOMAIN,
    MOODY_SENDER,
    NEWS,
    OTHER_DOMAIN,
    SHOP,
    THROTTLED,
)
from tests.soak.hosts.app import CONFIG, create_app
from tests.soak.hosts.wire import DOMAIN

_ENDS = {"commit": 88, "rollback": 8, "forget": 4}
_ORDERS = 0.2
"""The part of the emails that are orders' own; the rest are newsletters'."""
_LARGEST = 2000
"""Emails of one newsletter at most."""
_LISTED = 100
"""Domains that are drawn for one newsletter; its readers have them in turn."""
_DOMAINS = {DOMAIN: 75.0, OTHER_DOMAIN: 15.0, MOODY_DOMAIN: 8.0}
_HOPELESS_DOMAINS = {CLOSED_DOMAIN: 0.5, DENIED_DOMAIN: 0.5}
"""Where emails go to, by weight; the second ones never get any."""
_PLAIN: dict[str, Any] = {
    "emails": 1, "recipients": 1, "refused": "", "sender": SHOP, "octets": 0,
}  # fmt: skip
_ODD = {
    "": 80,
    "several": 5,
    "refused": 2,
    "moody sender": 5,
    "large": 4,
}
_HOPELESS = {"throttled sender": 1, "huge": 1, "closed domain": 1, "denied domain": 1}
"""What orders are like, by weight; the second ones are never taken."""


@dataclass(frozen=True)
class Load:
    """The load of one host, read from the environment."""

    told: str  # the file of what it was told
    mails_per_second: float
    hopeless_until: float = 0.0  # on the monotonic clock: emails that are refused for good
    is_plain: bool = False  # nothing but orders that no class is about

    @property
    def is_hopeless(self) -> bool:
        """Whether some emails are still to be such as the server never takes."""
        return time.monotonic() < self.hopeless_until


class _Web:
    """The threads of one web process."""

    def __init__(self, config: dict[str, Any], load: Load) -> None:
        self._app = create_app(config).flask
        self._load = load
        self._file = os.open(load.told, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._random = random.Random()

    def run(self) -> None:
        """Make requests until the process is ended."""
        rate = self._load.mails_per_second
        each = [(self._order, rate * _ORDERS / 2)] * 2 + [(self._newsletter, rate * (1 - _ORDERS))]
        if self._load.is_plain:
            each = [(self._plain_order, rate)]
        threads = [
            threading.Thread(target=_paced, args=(share, work), daemon=True) for work, share in each
        ]
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        for thread in threads:
            thread.join()

    def _plain_order(self) -> float:
        priority = self._random.choice(("urgent", "normal", "bulk"))
        return self._request({**_PLAIN, "domains": [DOMAIN], "priority": priority})

    def _order(self) -> float:
        wanted = {**_PLAIN, "domains": self._domains(4, _DOMAINS)}
        odd = _ODD | (_HOPELESS if self._load.is_hopeless else {})
        match self._random.choices(list(odd), list(odd.values()))[0]:
            case "several":
                wanted["recipients"] = self._random.randint(2, 4)
            case "refused":
                wanted["refused"] = self._random.choice(("refused-rcpt", "refused-dot"))
            case "moody sender":
                wanted["sender"] = MOODY_SENDER
            case "large":
                wanted["octets"] = LARGE
            case "throttled sender":
                wanted["sender"] = THROTTLED
            case "huge":
                wanted["octets"] = HUGE
            case "closed domain":
                wanted["domains"] = [CLOSED_DOMAIN]
            case "denied domain":
                wanted["domains"] = [DENIED_DOMAIN]
        wanted["priority"] = self._random.choice(("urgent", "normal", "normal"))
        return self._request(wanted)

    def _newsletter(self) -> float:
        emails = min(_LARGEST, round(50 * self._random.paretovariate(1)))  # few are large
        wanted = {**_PLAIN, "emails": emails}
        wanted["sender"] = self._random.choices((NEWS, MOODY_SENDER), (9, 1))[0]
        domains = _DOMAINS | (_HOPELESS_DOMAINS if self._load.is_hopeless else {})
        wanted["domains"] = self._domains(_LISTED, domains)
        return self._request({**wanted, "priority": "bulk"})

    def _domains(self, number: int, weights: Mapping[str, float]) -> list[str]:
        return self._random.choices(list(weights), list(weights.values()), k=number)

    def _request(self, wanted: dict[str, Any]) -> float:
        """Make one request and note what it was told; return the emails it was about."""
        wanted["reference"] = uuid4().hex[:16]
        wanted["policy"] = "hold" if self._random.random() < 0.1 else "resend"
        wanted["end"] = self._random.choices(list(_ENDS), list(_ENDS.values()))[0]
        self._note(wanted["reference"], "begun")
        if self._random.random() < 0.05:
            wanted["given_up"] = uuid4().hex[:16]
            self._note(wanted["given_up"], "rolled back")
        response = self._app.test_client().post("/orders", json=wanted)
        outcome = response.json["outcome"] if response.is_json and response.json else "unknown"
        self._note(wanted["reference"], outcome)
        return float(wanted["emails"])

    def _note(self, reference: str, outcome: str) -> None:
        os.write(self._file, f"{reference}\t{outcome}\n".encode())


def _paced(rate: float, work: Callable[[], float]) -> None:
    """Do `work`, which returns the emails that it made, so that it makes `rate` a second."""
    pause = threading.Event()
    began, made = time.monotonic(), 0.0
    while True:
        behind = (time.monotonic() - began) * rate - made
        if behind < 1:
            pause.wait((1 - behind) / rate)
        # An outage is not caught up with in one burst: nobody's customers do that.
        made = max(made, (time.monotonic() - began - 10) * rate)
        made += work()


if __name__ == "__main__":
    config = json.loads(os.environ[CONFIG])
    load = Load(**config.pop("load"))
    with suppress(KeyboardInterrupt):
        _Web(config, load).run()
