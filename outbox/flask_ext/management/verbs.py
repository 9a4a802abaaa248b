"""What all verbs need: the app's outbox, for reading and for writing."""

from __future__ import annotations

from flask import Flask

from ...worker.process.runtime import Runtime
from ..app.state import state_of


def unwatched(done: int, of: int) -> None:
    """Ignore the progress: the caller did not ask for it."""


class Verbs:
    """The base of the verbs."""

    _app: Flask | None = None

    @property
    def _runtime(self) -> Runtime:
        return state_of(self._app).runtime

    @property
    def _writer_runtime(self) -> Runtime:
        """The runtime, for a verb that writes."""
        return state_of(self._app).writer_runtime
