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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.soak.app import CONFIG, create_app

_ENDS = {"commit": 88, "rollback": 8, "forget": 4}
_ORDERS = 0.2
"""The part of the mails that are orders' own; the rest are newsletters'."""
_LARGEST = 2000
"""Mails of one newsletter at most."""


@dataclass(frozen=True)
class Load:
    """The load of one host, read from the environment."""

    told: str  # the file of what it was told
    mails_per_second: float


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
        threads = [
            threading.Thread(target=self._orders, args=(rate * _ORDERS / 2,), daemon=True),
            threading.Thread(target=self._orders, args=(rate * _ORDERS / 2,), daemon=True),
            threading.Thread(target=self._newsletters, args=(rate * (1 - _ORDERS),), daemon=True),
        ]
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        for thread in threads:
            thread.join()

    def _orders(self, rate: float) -> None:
        _paced(rate, self._order)

    def _order(self) -> float:
        draw = self._random.random()
        wanted: dict[str, Any] = {"mails": 1, "recipients": 1, "refused": ""}
        if draw < 0.05:
            wanted["recipients"] = self._random.randint(2, 4)
        elif draw < 0.07:
            wanted["refused"] = self._random.choice(("refused-rcpt", "refused-dot"))
        wanted["priority"] = self._random.choice(("urgent", "normal", "normal"))
        return self._request(wanted)

    def _newsletters(self, rate: float) -> None:
        _paced(rate, self._newsletter)

    def _newsletter(self) -> float:
        mails = min(_LARGEST, round(50 * self._random.paretovariate(1)))  # few are large
        return self._request({"mails": mails, "recipients": 1, "refused": "", "priority": "bulk"})

    def _request(self, wanted: dict[str, Any]) -> float:
        """Make one request and note what it was told; return the mails it was about."""
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
        return float(wanted["mails"])

    def _note(self, reference: str, outcome: str) -> None:
        os.write(self._file, f"{reference}\t{outcome}\n".encode())


def _paced(rate: float, work: Callable[[], float]) -> None:
    """Do `work`, which returns the mails that it made, so that it makes `rate` a second."""
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
