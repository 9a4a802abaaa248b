"""One content for many recipients: the parts that are each email's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from secrets import token_hex
from typing import Any

from ..errors import InvalidMessage, note_place
from ..header.address import CONTROL, check_address, id_domain
from ..header.fields import MAX_MAILBOX, written
from ..mime.line_endings import has_long_line, header_names
from .merge_fields import Merge
from .render import RenderedMessage

Recipient = str | tuple[str, str]
"""An address, or a (name, address) pair."""


def address_of(recipient: Recipient) -> str:
    """Check a recipient's address and return it as given: the caller knows it in this form."""
    address = _pair(recipient)[1]
    check_address(address, "recipients")
    return str(address)


def _pair(recipient: Any) -> tuple[str, Any]:
    if isinstance(recipient, str):
        return "", recipient
    if not isinstance(recipient, tuple) or len(recipient) != 2:
        raise InvalidMessage("recipients", "each must be an address or a (name, address) pair")
    name, address = recipient
    if not isinstance(name or "", str):
        raise InvalidMessage("recipients", "a name must be text")
    if len(name or "") > MAX_MAILBOX:
        raise InvalidMessage("recipients", f"a name has at most {MAX_MAILBOX} characters")
    if CONTROL.search(name or ""):
        raise InvalidMessage("recipients", "a name must not contain control characters")
    return name or "", address


def message_ids(sender: str, domain: str = "") -> Iterator[str]:
    """Yield Message-IDs for one run without an end, of `domain` or else the sender's domain."""
    domain, run = domain or id_domain(sender), token_hex(8)
    return (f"<{run}.{number}@{domain}>" for number in count())


def individuals(
    recipients: Iterable[Recipient],
    ids: Iterator[str],
    *,
    places: Iterable[int] | None = None,
    sender: str,
    content: bytes,
    smtputf8: bool,
    mail_options: tuple[str, ...] = (),
    rcpt_options: tuple[str, ...] = (),
    merge: Merge | None = None,
    header_of: Callable[[str], bytes] | None = None,
) -> Iterator[RenderedMessage]:
    """Yield an email for each recipient: its own To and Message-ID before the shared content.

    With `merge` each reader has their own content, and with `header_of` further header lines. Both
    get the address as it was given. The emails are made lazily, so that a hundred thousand
    recipients need no more memory than one chunk of them. An error names the recipient's place:
    one of `places`, or else its number in this run.
    """
    numbers = count() if places is None else places
    for recipient, message_id, place in zip(recipients, ids, numbers, strict=False):
        try:
            name, given = _pair(recipient)
            address = check_address(given, "recipients")
            own, values, to = b"", None, _to(name, address)
            if merge is not None:
                own, content, values = merge.of(given)
            if header_of is not None:
                own += header_of(given)
        except InvalidMessage as error:
            raise error.at("recipients", place, recipient) from None
        except Exception as error:  # of the app's own function
            note_place(error, "recipients", place)
            raise
        yield RenderedMessage(
            sender=sender,
            recipients=(address,),
            message_id=message_id,
            headers=b"%sMessage-ID: %s\r\n%s" % (to, message_id.encode(), own),
            content=content,
            smtputf8=smtputf8 or not address.isascii(),
            mail_options=mail_options,
            rcpt_options=rcpt_options,
            merge=values,
        )


def _to(name: str, address: str) -> bytes:
    if not name:
        return f"To: {address}\r\n".encode()
    header = f"To: {written(name, address)}".replace("\n", "\r\n").encode() + b"\r\n"
    if header_names(header) != ["To"] or has_long_line(header):
        raise InvalidMessage("recipients", "a name cannot be written in a header")
    return header
