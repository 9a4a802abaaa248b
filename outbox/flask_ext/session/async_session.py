"""Runs a call in the session behind an AsyncSession.

SQLAlchemy's module for it needs greenlet, which an app without asyncio need not have. So the module
is imported only where the app itself has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sqlalchemy.orm import Session

from ...domain.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session

Result = TypeVar("Result")
AnyAsyncSession: TypeAlias = "AsyncSession | async_scoped_session[Any]"

AWAIT = (
    "session=… is asynchronous: use await outbox.enqueue_async(…, session=session), or likewise"
    " enqueue_many_async or cancel_async"
)
_SYNC = (
    "session=… must be a sqlalchemy.ext.asyncio.AsyncSession or an async_scoped_session, but is a"
    " {kind}: use outbox.enqueue, enqueue_many or cancel, without await"
)
_MAKER = "session=… makes a new session at each call, and nobody would commit it: give the session"


def is_async(found: object) -> bool:
    """Return whether this is an AsyncSession, or makes or finds one."""
    module: Any = sys.modules.get("sqlalchemy.ext.asyncio")
    if module is None:
        return False
    kinds = (module.AsyncSession, module.async_scoped_session, module.async_sessionmaker)
    return isinstance(found, kinds)


async def within(session: AnyAsyncSession, work: Callable[[Session], Result]) -> Result:
    """Return what `work` does in the session's own transaction, with what it raises.

    Raises ConfigurationError for anything that is not an AsyncSession.
    """
    if not is_async(session):
        raise ConfigurationError(_SYNC.format(kind=type(session).__qualname__))
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session

    found: object = session() if isinstance(session, async_scoped_session) else session
    if not isinstance(found, AsyncSession):
        raise ConfigurationError(_MAKER)
    return await found.run_sync(work)
