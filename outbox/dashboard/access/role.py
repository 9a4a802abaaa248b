"""What a visitor may do, as the app says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, TypeAlias
from unicodedata import category

from flask import current_app

from ...domain.errors import ConfigurationError
from ...domain.header.address import CONTROL
from ...store.schema.audit_tables import WHO_LENGTH


class Role(IntEnum):
    """What a visitor may do; each role may do what the ones before it may."""

    VIEW = 1  # see lists, statuses, replies and headers
    READ = 2  # read the bodies and the attachments, too
    ACT = 3  # retry, cancel, resolve, suppress, pause


Answer: TypeAlias = "Role | tuple[Role, str | None] | Literal[False] | None"
Access: TypeAlias = Callable[[], "Answer | Awaitable[Answer]"]
"""Returns the role of the visitor of the current request, and who it is; None or False: nobody."""

_FORMAT = "Cf"
"""Unicode's category of what has no width, or turns the direction of the text."""
_UNNAMED = "somebody"
"""Who it is that the app gives no name: the audit has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Visitor:
    """Who asks, and what this person may do."""

    role: Role
    who: str  # for the audit

    @property
    def may_read(self) -> bool:
        """Whether this person may see bodies."""
        return self.role >= Role.READ

    @property
    def may_act(self) -> bool:
        """Whether this person may change something."""
        return self.role >= Role.ACT


def nobody() -> None:
    """Let nobody in: the access of a dashboard that was given none."""


def visitor_of(access: Access) -> Visitor | None:
    """Ask the app who visits; None: this request may see nothing.

    Raises ConfigurationError for an answer that is no role, or has a name that is no text: such a
    visitor sees nothing either.
    """
    found: Any = current_app.ensure_sync(access)()
    role, who = found if isinstance(found, tuple) and len(found) == 2 else (found, _UNNAMED)
    if role is None or role is False:  # as of `user.is_staff and Role.ACT`
        return None
    if not isinstance(role, Role):
        told = f"returned a {type(found).__name__}"
        raise ConfigurationError(f"access= {told}: return None, a Role, or (a Role, who it is)")
    return Visitor(role=role, who=_named(who))


def _named(who: Any) -> str:
    """Return the name for the audit, without what nobody sees: two names must not look alike.

    An account may have no name. An id that is no text is refused: the audit would not say who did
    it, or would say "False" or "b'ada'".
    """
    if who is None or who is False:
        return _UNNAMED
    if not isinstance(who, str):
        told = f"returned a {type(who).__name__} as the name"
        raise ConfigurationError(f"access= {told}: return text, such as str(id), or None")
    seen = "".join(one for one in CONTROL.sub(" ", who) if category(one) != _FORMAT)
    return seen.strip()[:WHO_LENGTH].strip() or _UNNAMED
