"""The script of the SMTP server: what it replies, at which step, and to whom."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass

from ..domain.delivery.transaction import Phase
from .addresses import bare_addresses, on_the_wire

_PHASES = {phase.upper(): phase for phase in (Phase.MAIL, Phase.RCPT, Phase.DATA, Phase.DOT)}


@dataclass(kw_only=True)
class _Rule:
    phase: Phase
    reply: str | None  # None: hang up
    to: str | None
    left: int | None  # how often it is still used; None: always

    def fits(self, phase: Phase, recipients: Collection[str]) -> bool:
        if phase is not self.phase or self.left == 0:
            return False
        return self.to is None or self.to in {address.lower() for address in recipients}


class Replies:
    """What the server replies. Where no rule fits, it takes everything.

    A step is "MAIL", "RCPT", "DATA" or "DOT", which is the final dot of the content. Of several
    rules that fit, the last one given is used. With `to` a rule is for one recipient: at RCPT for
    that address alone, later for each email that it gets. With `times` a rule is used that often,
    and without it always.
    """

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()  # connections are served by threads

    def at(
        self,
        step: str,
        code: int,
        text: str = "",
        *,
        to: str | None = None,
        times: int | None = None,
    ) -> None:
        """Refuse at a step, as in `at("RCPT", 550, "5.1.1 no such user", to="a@x.example")`.

        `code` is from 400 to 599; `text` may begin with an enhanced status code (RFC 3463).
        Raises ValueError for anything else.
        """
        if not isinstance(code, int) or not 400 <= code <= 599:
            raise ValueError("a code is from 400 to 599: where no rule fits, the reply is 250")
        if not isinstance(text, str) or not text.isascii() or not text.isprintable():
            raise ValueError("a reply is one line of ASCII")
        self._add(step, f"{code} {text}".rstrip(), to, times)

    def hang_up_at(self, step: str, *, to: str | None = None, times: int | None = None) -> None:
        """Close the connection at a step without a reply; at "DOT" the email comes to be in doubt.

        `to` and `times` are as in `at`, and so is the ValueError.
        """
        self._add(step, None, to, times)

    def clear(self) -> None:
        """Forget all rules."""
        with self._lock:
            self._rules.clear()

    def find(self, phase: Phase, recipients: Collection[str], otherwise: str) -> str | None:
        """Return the reply at this phase, or None to hang up; a rule that is used is counted."""
        with self._lock:
            for rule in reversed(self._rules):
                if rule.fits(phase, recipients):
                    if rule.left is not None:
                        rule.left -= 1
                    return rule.reply
        return otherwise

    def _add(self, step: str, reply: str | None, to: str | None, times: int | None) -> None:
        phase = _PHASES.get(str(step).upper())
        if phase is None:
            raise ValueError(f"a step is one of {', '.join(_PHASES)}, not {step!r}")
        if to is not None and phase is Phase.MAIL:
            raise ValueError("at MAIL the recipients are not known yet: give no to=")
        if times is not None and (not isinstance(times, int) or times < 1):
            raise ValueError("times is a number from 1; without it a rule is always used")
        address = None if to is None else on_the_wire(*bare_addresses("to", to))
        with self._lock:
            self._rules.append(_Rule(phase=phase, reply=reply, to=address, left=times))
