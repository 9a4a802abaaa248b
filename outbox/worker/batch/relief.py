"""Gives back the emails that wait behind a slow one; the heartbeat does it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from ...store.connection.error_codes import describe
from ...store.transitions import release
from ...store.transitions.window import advance
from ..process.runtime import Runtime
from .batch_results import Results
from .send_window import Window
from .server_choice import ServerChoice

_log = logging.getLogger("outbox")


@dataclass(frozen=True, kw_only=True, slots=True)
class Relief:
    """Watches one open window, from the heartbeat's thread and during the wait for a reply."""

    runtime: Runtime
    token: UUID
    window: Window
    choice: ServerChoice
    results: Results

    def give_back(self) -> None:
        """If an email is slow, give back all emails of the batch that were not tried yet."""
        slow, waiting = self.window.slow, self.window.relieve()
        if slow is None or waiting is None:
            return
        self.choice.watch.note_slow(slow)
        database, token = self.runtime.database, self.token
        advance(database, token, waiting, (), worker=self.runtime.worker)
        database.run(partial(release.give_back_claimed, database=database, token=token))

    def goes_on(self) -> bool:
        """Return whether to go on waiting for a silent server.

        It is False where other emails wait, no process is free, and this email has had its time.
        """
        slow = self.window.slow
        if slow is None:
            return True
        try:
            if self.results.waiting:  # else the emails sent before stay in doubt during the wait
                self.results.record_once()
            if self.window.is_relieved:
                return not self.choice.watch.gives_up(slow, self.window.seconds)
            self.give_back()
        except Exception as error:  # noqa: BLE001  (the reply may come; the next look is soon)
            _log.warning("outbox: a look for waiting emails failed (%s)", describe(error))
        return True
