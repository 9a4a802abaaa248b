"""Keeps a statement's values out of the text of its error: addresses do not belong in logs."""

from __future__ import annotations

from types import TracebackType

from sqlalchemy.exc import StatementError


class _Hidden:
    """A class, because a generator would cost each enqueue and each window more."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Do nothing: only errors matter."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if isinstance(error, StatementError):
                error.hide_parameters = True
            error = error.__cause__ or error.__context__  # a traceback shows these, too


VALUES_HIDDEN = _Hidden()
"""Around all statements of the outbox: an error that leaves the block does not tell its values."""
