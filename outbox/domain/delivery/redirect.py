"""Staging: an email for customers goes to one address of ours, and its header says so. Pure.

It happens at delivery and not at enqueue: a staging system may run on a copy of production's table.
"""

from __future__ import annotations

from dataclasses import replace

from ..header.address import CONTROL
from .transaction import Envelope, RecipientResult, Transaction


def redirect(envelope: Envelope, to: str) -> tuple[Envelope, bytes]:
    """Return an envelope to `to` alone, and header lines that name the original recipients.

    One copy of each email leaves, however many recipients it has. The options of RCPT are dropped,
    because they are about the recipients (RFC 3461's ORCPT names them).
    """
    told = [f"X-Outbox-Redirected-To: {to}"]
    # One field for each, as Postfix writes it: a list of all could exceed the longest line.
    told += [f"X-Original-To: {CONTROL.sub('?', address)}" for address in envelope.recipients]
    block = "".join(f"{line}\r\n" for line in told).encode()
    return replace(envelope, recipients=(to,), rcpt_options=()), block


def restore(result: Transaction, envelope: Envelope) -> Transaction:
    """Return the result of a redirected email as that of its own `envelope`.

    Every recipient gets the result of the one copy.
    """
    one = result.recipients[0] if result.recipients else result
    recipients = tuple(
        RecipientResult(address=address, verdict=one.verdict, reply=one.reply)
        for address in envelope.recipients
    )
    return replace(result, recipients=recipients)
