"""One content, many recipients: what is each mail's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from email.headerregistry import Address
from email.policy import SMTP
from email.utils import formataddr
from secrets import token_hex

from .address import check_address, domain_of
from .errors import InvalidMessage
from .message import Prepared

Recipient = str | tuple[str, str]
"""An address, or a (name, address) pair."""


def address_of(recipient: Recipient) -> str:
    """Return the checked address of a recipient."""
    return check_address(recipient if isinstance(recipient, str) else recipient[1], "recipients")


def individuals(
    recipients: Iterable[Recipient], *, sender: str, content: bytes, smtputf8: bool
) -> Iterator[Prepared]:
    """Yield a mail for each recipient: its own To and Message-ID before the shared content.

    Lazy, so that a hundred thousand recipients need no more memory than one chunk of them.
    """
    domain, run = domain_of(sender).strip("[]"), token_hex(8)
    for number, recipient in enumerate(recipients):
        address = address_of(recipient)
        message_id = f"<{run}.{number}@{domain}>"
        yield Prepared(
            sender=sender,
            recipients=(address,),
            message_id=message_id,
            headers=_to(recipient, address) + f"Message-ID: {message_id}\r\n".encode(),
            content=content,
            smtputf8=smtputf8 or not address.isascii(),
        )


def _to(recipient: Recipient, address: str) -> bytes:
    name = "" if isinstance(recipient, str) else recipient[0]
    if not name:
        return f"To: {address}\r\n".encode()
    try:
        if address.isascii():
            folded: str = SMTP.fold("To", str(Address(name, addr_spec=address)))
            return folded.encode()
        return f"To: {formataddr((name, address))}\r\n".encode()
    except ValueError:
        raise InvalidMessage("recipients", "a name must not contain control characters") from None
