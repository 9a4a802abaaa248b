"""SMTP's command lines. One function builds and checks every line that leaves."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..domain.delivery.transaction import Envelope

_FORBIDDEN = re.compile(r"[\r\n\0]")
_PATH = re.compile(r'(?:"(?:[^"\\]|\\.)*"@)?[^\s<>"\\]*')

_OURS = frozenset({"SIZE", "BODY", "SMTPUTF8"})
_EXTENSION = {
    "RET": "dsn", "ENVID": "dsn", "NOTIFY": "dsn", "ORCPT": "dsn",
    "BY": "deliverby",
    "HOLDFOR": "futurerelease", "HOLDUNTIL": "futurerelease",
}  # fmt: skip
"""The extension that defines a parameter, where their names differ (RFC 3461, 2852, 4865)."""


class CommandError(ValueError):
    """A command line that must not leave. The text does not repeat the value."""


def command(*words: str, utf8: bool = False) -> bytes:
    """Return one command line with its CRLF.

    Raises CommandError for CR, LF and NUL, so that no value becomes a second command. Raises it too
    for non-ASCII text where SMTPUTF8 was not agreed (RFC 6531 §3.1).
    """
    return _line(" ".join(words), utf8)


def _line(text: str, utf8: bool) -> bytes:
    if _FORBIDDEN.search(text):
        raise CommandError(f"{text[:4]}: a command line must not contain CR, LF or NUL")
    try:
        return text.encode("utf-8" if utf8 else "ascii") + b"\r\n"
    except UnicodeEncodeError:
        raise CommandError(f"{text[:4]}: a non-ASCII command line needs SMTPUTF8") from None


def envelope_lines(envelope: Envelope, size: int, extensions: Mapping[str, str]) -> list[bytes]:
    """Return the commands of an envelope: MAIL, and a RCPT for each recipient, in their order."""
    return [mail_line(envelope, size, extensions), *rcpt_lines(envelope, extensions)]


def mail_line(envelope: Envelope, size: int, extensions: Mapping[str, str]) -> bytes:
    """Return the MAIL command with the parameters that the server knows."""
    text = f"MAIL FROM:{_reverse_path(envelope.sender)}"
    if "size" in extensions:
        text += f" SIZE={size}"
    if (envelope.eightbit or envelope.smtputf8) and "8bitmime" in extensions:
        text += " BODY=8BITMIME"
    if envelope.smtputf8:
        text += " SMTPUTF8"
    return _line(text + _known(envelope.mail_options, extensions), envelope.smtputf8)


def rcpt_lines(envelope: Envelope, extensions: Mapping[str, str]) -> list[bytes]:
    """Return one RCPT command for each recipient, in their order."""
    options, utf8 = _known(envelope.rcpt_options, extensions), envelope.smtputf8
    return [_line(f"RCPT TO:{_path(to)}{options}", utf8) for to in envelope.recipients]


def lacking(envelope: Envelope, size: int, extensions: Mapping[str, str]) -> str:
    """Return why this server cannot take this email, as a reason for people, or ""."""
    if envelope.smtputf8 and "smtputf8" not in extensions:
        return "the server does not offer SMTPUTF8, which an address of this email needs"
    if envelope.eightbit and "8bitmime" not in extensions:
        return "the server does not offer 8BITMIME, which this email needs: it cannot be encoded"
    limit = extensions.get("size", "")
    if limit.isascii() and limit.isdigit() and 0 < int(limit) < size:  # 0 is no limit: RFC 1870 §4
        return f"the email has {size} octets and the server takes {limit} (SIZE)"
    for option in envelope.demands:
        if not _is_offered(option, extensions):
            return f"the server does not offer what the option {_keyword(option)} needs"
    return ""


def _path(address: str) -> str:
    """Return the path in its brackets; refuse one that could end them and add parameters."""
    if not _PATH.fullmatch(address):
        raise CommandError('an address must not contain white space, <, > or " unquoted')
    return f"<{address}>"


@lru_cache(maxsize=64)
def _reverse_path(sender: str) -> str:
    """Return the path of a sender. It is cached because an app has few senders."""
    return _path(sender)


def _known(options: Sequence[str], extensions: Mapping[str, str]) -> str:
    """Return the options whose extension is offered, without those that are set from the email."""
    if not options:  # as in almost every email
        return ""
    return "".join(
        f" {option}"
        for option in options
        if _keyword(option) not in _OURS and _is_offered(option, extensions)
    )


def _keyword(option: str) -> str:
    return option.partition("=")[0].upper()


def _is_offered(option: str, extensions: Mapping[str, str]) -> bool:
    keyword = _keyword(option)
    return _EXTENSION.get(keyword, keyword.lower()) in extensions
