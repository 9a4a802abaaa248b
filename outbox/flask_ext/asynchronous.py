"""The calls for an app whose session is an AsyncSession."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from datetime import datetime
from email.message import Message
from typing import Any, Protocol, TypeAlias, TypedDict, Unpack

import flask_mail

from ..domain.config.enqueue_options import Redact
from ..domain.config.settings import OnUnknown
from ..domain.errors import InvalidMessage
from ..domain.header.added_headers import URLOf, URLs
from ..domain.message.merge_fields import Fields
from ..domain.message.personalize import Recipient
from ..domain.priority import Priority
from ..store.records import Email
from .session.async_session import AnyAsyncSession, within
from .session.source import AnySession

AnyMessage: TypeAlias = "flask_mail.Message | Message[Any, Any]"


class _Options(TypedDict, total=False):
    priority: Priority | str | int
    send_at: datetime | None
    expires_at: datetime | None
    tag: str | None
    on_unknown: OnUnknown | str | None
    max_attempts: int | None
    envelope_from: str | None
    auto_submitted: bool | str
    redact: Redact | None


class OptionsOfOne(_Options, total=False):
    """The options of `enqueue_async`, which are those of `enqueue`."""

    key: str | None
    unsubscribe: URLs | None


class OptionsOfMany(_Options, total=False):
    """The options of `enqueue_many_async`, which are those of `enqueue_many`."""

    key: Callable[[Any], str] | None
    unsubscribe: URLOf | None
    fields: Fields


class Asynchronous(Protocol):
    """The same calls with `await`; `Outbox` inherits them.

    They write in the session's own transaction, by its `run_sync`. So they raise the same errors,
    and the emails leave after the session's commit. Messages are rendered on the event loop's
    thread: about a millisecond each.
    """

    def enqueue(
        self,
        message: AnyMessage,
        *,
        session: AnySession | None = None,
        **options: Unpack[OptionsOfOne],
    ) -> Email:
        """Write an email; `Outbox` has it."""

    def enqueue_many(
        self,
        messages: AnyMessage | Iterable[AnyMessage],
        recipients: Iterable[Recipient] | None = None,
        *,
        session: AnySession | None = None,
        **options: Unpack[OptionsOfMany],
    ) -> int:
        """Write many emails; `Outbox` has it."""

    def cancel(
        self,
        *,
        id: int | None = None,  # noqa: A002  (the public name)
        key: str | None = None,
        tag: str | None = None,
        session: AnySession | None = None,
    ) -> int:
        """Withdraw emails; `Outbox` has it."""

    async def enqueue_async(
        self,
        message: AnyMessage,
        *,
        session: AnyAsyncSession,
        **options: Unpack[OptionsOfOne],
    ) -> Email:
        """Write an email into the AsyncSession's transaction, as `enqueue` does.

        Raises what `enqueue` raises, and ConfigurationError for a session that is not asynchronous.
        """
        return await within(session, lambda sync: self.enqueue(message, session=sync, **options))

    async def enqueue_many_async(
        self,
        messages: AnyMessage | Iterable[AnyMessage],
        recipients: Iterable[Recipient] | None = None,
        *,
        session: AnyAsyncSession,
        **options: Unpack[OptionsOfMany],
    ) -> int:
        """Write many emails into the AsyncSession's transaction, as `enqueue_many` does.

        The iterables and functions are ordinary ones: they are called without `await`. Raises
        InvalidMessage for an asynchronous iterable.
        """
        for name, given in (("messages", messages), ("recipients", recipients)):
            if isinstance(given, AsyncIterable):
                raise InvalidMessage(
                    name, "must be an ordinary iterable: read it into a list first"
                )
        return await within(
            session,
            lambda sync: self.enqueue_many(messages, recipients, session=sync, **options),
        )

    async def cancel_async(
        self,
        *,
        id: int | None = None,  # noqa: A002  (the public name)
        key: str | None = None,
        tag: str | None = None,
        session: AnyAsyncSession,
    ) -> int:
        """Withdraw unsent emails in the AsyncSession's transaction, as `cancel` does."""
        return await within(
            session, lambda sync: self.cancel(id=id, key=key, tag=tag, session=sync)
        )
