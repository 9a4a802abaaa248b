"""What the heartbeat does for the emails that wait behind a slow one: it gives them back."""

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
    """Watches over one open window from the heartbeat's thread, and between two replies."""

    runtime: Runtime
    token: UUID
    window: Window
    choice: ServerChoice
    results: Results

    def give_back(self) -> None:
        """Where an email is slow, give back all of the batch that is not tried."""
        slow, waiting = self.window.slow, self.window.relieve()
        if slow is None or waiting is None:
            return
        self.choice.watch.note_slow(slow)
        database, token = self.runtime.database, self.token
        advance(database, token, waiting, (), worker=self.runtime.worker)
        database.run(partial(release.give_back_claimed, database=database, token=token))

    def goes_on(self) -> bool:
        """Whether a silent server is waited for: not where others wait, and no process is free."""
        slow = self.window.slow
        if slow is None:
            return True
        try:
            if self.results.waiting:  # else those that were sent would be in doubt for as long
                self.results.record_once()
            if self.window.is_relieved:
                return not self.choice.watch.gives_up(slow, self.window.seconds)
            self.give_back()
        except Exception as error:  # noqa: BLE001  (the reply may come; it is asked again soon)
            _log.warning("outbox: who waits could not be asked (%s)", describe(error))
        return True
