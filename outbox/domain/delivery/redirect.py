"""Staging: what was written for customers goes to one address of ours, and says so. Pure.

It happens at delivery and not at enqueue: a staging system may run on a copy of production's table.
"""

from __future__ import annotations

from dataclasses import replace

from ..header.address import CONTROL
from .transaction import Envelope, RecipientResult, Transaction


def redirect(envelope: Envelope, to: str) -> tuple[Envelope, bytes]:
    """Return the envelope to `to` alone, and the header lines that tell whom it had.

    One copy of each email leaves, however many recipients it has. Options of RCPT go: they speak of
    the recipients (RFC 3461's ORCPT names them).
    """
    told = [f"X-Outbox-Redirected-To: {to}"]
    # A field for each, as Postfix writes it: a list of all could be over the longest line.
    told += [f"X-Original-To: {CONTROL.sub('?', address)}" for address in envelope.recipients]
    block = "".join(f"{line}\r\n" for line in told).encode()
    return replace(envelope, recipients=(to,), rcpt_options=()), block


def restore(result: Transaction, envelope: Envelope) -> Transaction:
    """Return the result of a redirected email as that of its own `envelope`.

    What became of the one copy became of every recipient.
    """
    one = result.recipients[0] if result.recipients else result
    recipients = tuple(
        RecipientResult(address=address, verdict=one.verdict, reply=one.reply)
        for address in envelope.recipients
    )
    return replace(result, recipients=recipients)
