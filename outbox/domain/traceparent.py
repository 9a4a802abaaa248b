"""W3C's `traceparent`: by it an email names the request that wrote it (Trace Context, §3.2)."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

LENGTH = 55
"""The characters of version 00, which is the only one that is written."""

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 0x01


class TraceParent(NamedTuple):
    """The context of a span: the ids of its trace and of itself, and the flags."""

    trace_id: int  # 128 bits, not 0
    span_id: int  # 64 bits, not 0
    flags: int  # 8 bits; the lowest one: the trace is sampled

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """Return what the text says, or None if it is not valid.

        A later version may go on after the flags, and mean something else by their other bits.
        """
        found = None if text is None else _FORM.fullmatch(text)
        if found is None:
            return None
        version, trace, span, flags, more = found.groups()
        parsed = cls(int(trace, 16), int(span, 16), int(flags, 16))
        if version == "ff" or not parsed.is_valid:
            return None
        if version == "00":
            return None if more else parsed
        return parsed._replace(flags=parsed.flags & _SAMPLED)

    def __str__(self) -> str:
        """Return it in the form of version 00."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"

    @property
    def is_valid(self) -> bool:
        """Whether each part is in its range."""
        ids = 0 < self.trace_id < 1 << 128 and 0 < self.span_id < 1 << 64
        return ids and 0 <= self.flags < 1 << 8

    @property
    def trace(self) -> str:
        """The trace's id as tools for traces show it: 32 hexadecimal digits."""
        return f"{self.trace_id:032x}"
