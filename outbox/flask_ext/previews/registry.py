"""The previews of an app: functions that return messages, each under a name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ...domain.config.enqueue_options import Options
from ...domain.errors import ConfigurationError, InvalidMessage
from ...domain.header.added_headers import AddedHeaders, URLOf, URLs
from ...domain.message.merge_fields import Fields, check_fields
from ...domain.message.personalize import Recipient, address_of
from ...domain.priority import Priority

Function = TypeVar("Function", bound=Callable[[], Any])


@dataclass(frozen=True, kw_only=True)
class Preview:
    """A function that returns a message, and how that message would be enqueued."""

    name: str
    slug: str  # the name as a part of a URL
    function: Callable[[], Any]
    to: Recipient | None  # the reader of a newsletter; None: the message has its recipients
    fields: Fields
    options: Options
    added_headers: AddedHeaders

    @property
    def about(self) -> str:
        """The first line of the function's docstring, or ""."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def place(self) -> str:
        """The module and the name of the function."""
        function = self.function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{getattr(function, '__module__', None)}.{name}"


class Previews:
    """The previews by their slugs, in the order in which they were made."""

    def __init__(self) -> None:
        self._by_slug: dict[str, Preview] = {}

    def __iter__(self) -> Iterator[Preview]:
        return iter(list(self._by_slug.values()))

    def find(self, slug: str) -> Preview | None:
        """Return the preview with this slug, or None."""
        return self._by_slug.get(slug)

    def add(self, preview: Preview) -> None:
        """Add a preview, or put it in the place of the one that the same function made before.

        An app factory that is called twice makes its previews twice. Raises ConfigurationError
        where two functions have one name.
        """
        known = self._by_slug.get(preview.slug)
        if known is not None and known.place != preview.place:
            told = f"{known.place} and {preview.place}"
            raise ConfigurationError(f"two previews are named {preview.name!r}: {told}")
        self._by_slug[preview.slug] = preview


class WithPreviews:
    """The part of `Outbox` that previews are made with."""

    def __init__(self) -> None:
        self._previews = Previews()

    def preview(
        self,
        name: str,
        *,
        to: Recipient | None = None,
        fields: Fields = None,
        unsubscribe: URLs | URLOf | None = None,
        auto_submitted: bool | str = False,
        envelope_from: str | None = None,
    ) -> Callable[[Function], Function]:
        """Show what the function returns at `/outbox/previews`, in debug mode only.

        The function takes nothing and returns a message, which is rendered as `enqueue` would
        render it. With `to`, the address of a reader, it is rendered as `enqueue_many` would for
        that reader. Then `unsubscribe` is a function, and `fields` may be given. The other
        arguments are as in `enqueue`. The function itself is returned unchanged.

        Raises InvalidMessage for a wrong argument, and ConfigurationError where the function needs
        arguments, or where the name is that of another function's preview.
        """
        _check(to=to, fields=fields, unsubscribe=unsubscribe)
        slug = _slug(name)
        options = Options.check(priority=Priority.NORMAL, envelope_from=envelope_from)
        added = AddedHeaders.check(auto_submitted=auto_submitted, unsubscribe=unsubscribe)

        def keep(function: Function) -> Function:
            preview = Preview(
                name=name,
                slug=slug,
                function=function,
                to=to,
                fields=fields,
                options=options,
                added_headers=added,
            )
            _refuse_arguments(preview)
            self._previews.add(preview)
            return function

        return keep


def _check(*, to: Recipient | None, fields: object, unsubscribe: object) -> None:
    if to is not None:
        address_of(to)
        if unsubscribe is not None and not callable(unsubscribe):
            rule = "must be a function: each reader has a URL of their own"
            raise InvalidMessage("unsubscribe", rule)
    elif fields:
        raise InvalidMessage("fields", "need to=, the address of a reader")
    check_fields(fields)


def _refuse_arguments(preview: Preview) -> None:
    """Raise ConfigurationError for a function that nobody can call without arguments."""
    try:
        parameters = inspect.signature(preview.function).parameters.values()
    except (TypeError, ValueError):  # of C, or no function at all: its page will tell
        return
    needed = [
        one.name
        for one in parameters
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if needed:
        told = f"the preview {preview.name!r}: {preview.place} needs {', '.join(needed)}"
        raise ConfigurationError(
            f"{told}, and a preview is called without arguments: decorate a function that takes"
            " none, and have it return the message of this one with arguments of your choice"
        )


def _slug(name: object) -> str:
    found = re.sub(r"[\W_]+", "-", name.casefold()).strip("-") if isinstance(name, str) else ""
    if not found:
        raise ConfigurationError(
            'a preview needs a name with letters, as in @outbox.preview("Order confirmation")'
        )
    return found
