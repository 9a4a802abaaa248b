"""A content has left, and its reply has not come: whoever keeps this can still get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..domain.delivery.transaction import Transaction


class NoReplyYet(Exception):
    """Raised where nobody is to wait here for the reply to a content.

    The email is in doubt until `wait` has returned. It may be called in another thread, and once.
    """

    def __init__(self, wait: Callable[[], Transaction], end: Callable[[], object]) -> None:
        """`wait` waits for the reply, for what is left of its time; `end` ends the session.

        Record the result before you call `end`: a server may take its time with QUIT, too.
        """
        super().__init__("no reply to the content yet")
        self.wait = wait
        self.end = end

    def then(self, change: Callable[[Transaction], Transaction]) -> NoReplyYet:
        """Return one whose `wait` returns what `change` makes of this one's transaction."""
        return NoReplyYet(lambda: change(self.wait()), self.end)
