"""How urgent an email is. Lower numbers leave first."""

from __future__ import annotations

from enum import IntEnum

from .errors import InvalidMessage


class Priority(IntEnum):
    """The order of claims: urgent overtakes normal, normal overtakes bulk."""

    URGENT = 0  # one-time codes, password resets: a person is waiting
    NORMAL = 1  # order confirmations
    BULK = 2  # newsletters: may wait, never starves

    @classmethod
    def of(cls, value: object) -> Priority:
        """Read a priority, its number or its name in any case, or raise InvalidMessage."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            member = cls.__members__.get(value.upper())
            if member is not None:
                return member
        elif isinstance(value, int) and not isinstance(value, bool) and value in set(cls):
            return cls(value)
        names = ", ".join(name.lower() for name in cls.__members__)
        raise InvalidMessage("priority", f"must be one of {names}")
