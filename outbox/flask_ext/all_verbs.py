"""All verbs together: `Outbox` inherits them, and the commands call them."""

from __future__ import annotations

from .alarm.verbs import Watching
from .jobs.verbs import Jobs
from .restore.verbs import Restoring


class AllVerbs(Watching, Jobs, Restoring):
    """The verbs of `Management` and of the rooms beside it."""
