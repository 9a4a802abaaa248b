"""Classes of emails by what a server may object to: a recipient domain, a sender, or a size.

Known to the load, the server and the auditor; it uses nothing of the library.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from tests.soak.hosts.wire import DOMAIN

Trait = Literal["domain", "sender", "size"]

OTHER_DOMAIN = "other.example"
MOODY_DOMAIN = "moody.example"
"""The domain that a server refuses for some time."""

SHOP, NEWS = f"shop@{DOMAIN}", f"news@{DOMAIN}"
MOODY_SENDER = f"moody@{DOMAIN}"
"""The sender that a server refuses for some time."""

LARGE, HUGE = 40_000, 120_000
"""Octets from which on an email is refused for some time, and from which on for good."""

LIFETIME, STEPS = 60.0, (5.0, 10.0, 15.0)
"""Seconds that an email's own delays may come to, and each of them at most."""

REPLIES: dict[Trait, tuple[tuple[str, str], ...]] = {
    "domain": (
        ("RCPT", "421 4.7.0 try again later, closing connection"),
        ("RCPT", "451 4.3.0 temporary lookup failure"),
        ("RCPT", "554 5.7.1 Access denied"),
    ),
    "sender": (
        ("MAIL", "450 4.7.1 rate limit exceeded"),
        ("MAIL", "421 4.7.0 try again later, closing connection"),
        ("RCPT", "554 5.7.1 sender rejected"),
    ),
    "size": (
        ("MAIL", "452 4.3.1 insufficient system storage"),
        ("MAIL", "421 4.3.2 closing connection"),
        ("MAIL", "552 5.3.4 message too big"),
    ),
}
"""Where a class is refused for some time, and with which words."""

_AT = " at "
_SIZE = re.compile(r"\bSIZE=(\d+)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """A class that a server refuses; `name` is what its notes call it."""

    name: str
    trait: Trait
    value: str | int
    place: str  # MAIL or RCPT
    reply: str

    @property
    def halts(self) -> bool:
        """Whether the reply says that a later try may succeed."""
        return self.reply.startswith("4")

    def is_about(self, *, sender: str, size: int, domain: str) -> bool:
        """Return whether an email is of this class; at MAIL nobody knows the domain: ""."""
        match self.trait:
            case "domain":
                return domain == self.value
            case "sender":
                return sender == self.value
        return isinstance(self.value, int) and size >= self.value


FOR_GOOD: tuple[Refusal, ...] = (
    Refusal(
        name="a domain for good: 421",
        trait="domain",
        value="closed.example",
        place="RCPT",
        reply="421 4.7.0 try again later, closing connection",
    ),
    Refusal(
        name="a domain for good: 554",
        trait="domain",
        value="denied.example",
        place="RCPT",
        reply="554 5.7.1 Access denied",
    ),
    Refusal(
        name="a sender for good: 450",
        trait="sender",
        value=f"throttled@{DOMAIN}",
        place="MAIL",
        reply="450 4.7.1 rate limit exceeded",
    ),
    Refusal(
        name="a size for good: 452",
        trait="size",
        value=HUGE,
        place="MAIL",
        reply="452 4.3.1 insufficient system storage",
    ),
)
"""What the server never takes, from the first moment on."""

CLOSED_DOMAIN, DENIED_DOMAIN, THROTTLED = (str(refusal.value) for refusal in FOR_GOOD[:3])

_FOR_SOME_TIME: dict[Trait, str | int] = {
    "domain": MOODY_DOMAIN,
    "sender": MOODY_SENDER,
    "size": LARGE,
}


def for_some_time(kind: str, time: float, *, trait: Trait, place: str, reply: str) -> Refusal:
    """Return the refusal of the class that is refused for some time by this trait."""
    name, value = f"{kind}{_AT}{time:g}", _FOR_SOME_TIME[trait]
    return Refusal(name=name, trait=trait, value=value, place=place, reply=reply)


def kind_of(name: str) -> str:
    """Return a refusal's name without its time."""
    return name.partition(_AT)[0]


def refused_for_good(recipient: str, *, sender: str, size: int) -> Refusal | None:
    """Return why the server never takes such an email for this recipient; None where it does."""
    domain = domain_of(recipient)
    about = (r for r in FOR_GOOD if r.is_about(sender=sender, size=size, domain=domain))
    return next(about, None)


def refused_now(
    refusals: Collection[Refusal], place: str, *, sender: str, size: int, domain: str = ""
) -> Refusal | None:
    """Return the refusal that such an email meets at MAIL or RCPT."""
    at_place = (refusal for refusal in refusals if refusal.place == place)
    about = (r for r in at_place if r.is_about(sender=sender, size=size, domain=domain))
    return next(about, None)


def declared_size(command: str) -> int:
    """Return the octets that a MAIL command declares; 0 where it declares none."""
    found = _SIZE.search(command)
    return int(found[1]) if found else 0


def domain_of(address: str) -> str:
    """Return what stands behind the last @."""
    return address.rpartition("@")[2]
