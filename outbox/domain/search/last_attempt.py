"""The last attempt of a failed or unknown email, as emails are grouped and found by it."""

from __future__ import annotations

import re
from typing import Any

from ..delivery.transaction import Phase
from ..errors import InvalidMessage
from ..header.address import check_address, domain_of

NONE = "(none)"
"""Stands for what there is not: no reply, or no server. No server's name has parentheses."""

_REPLY = re.compile(r"[0-9]{3}(?: [0-9.]{1,12})?")
_SERVER = re.compile(r"[!-~]{1,255}")


def reply_of(code: int, enhanced: str) -> str:
    """Return a reply's codes as text, such as "550 5.1.1"; "" if there was no reply."""
    return f"{code} {enhanced}".strip() if code else ""


def check_reply(value: Any) -> str | None:
    """Return the codes of a reply, or raise InvalidMessage."""
    return _checked("reply", value, _REPLY, f'a code, "550 5.1.1" for example, or "{NONE}"')


def check_server(value: Any) -> str | None:
    """Return a server's name, or raise InvalidMessage."""
    return _checked("server", value, _SERVER, f'a server\'s name, or "{NONE}"')


def check_phase(value: Any) -> str | None:
    """Return a step of the SMTP dialogue, or raise InvalidMessage."""
    if value is None or value in list(Phase):
        return value if value is None else Phase(value).value
    if value == NONE:
        return ""
    raise InvalidMessage("phase", f"must be one of {', '.join(Phase)}, {NONE}")


def check_domain(value: Any) -> str | None:
    """Return a domain as recipients have it in the envelope, or raise InvalidMessage."""
    if value is None:
        return None
    if not isinstance(value, str) or "@" in value:
        raise InvalidMessage("domain", "must be a domain, without an address before it")
    return domain_of(check_address(f"x@{value}", "domain"))


def _checked(name: str, value: Any, form: re.Pattern[str], told: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not (value == NONE or form.fullmatch(value)):
        raise InvalidMessage(name, f"must be {told}")
    return "" if value == NONE else value
