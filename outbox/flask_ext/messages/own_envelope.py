"""The envelope of a message whose own class renders it, or names its recipients."""

from __future__ import annotations

import flask_mail

from ...domain.errors import InvalidMessage
from ...domain.message.render import GivenEnvelope, refuse_many
from .convert import composing, read_head
from .own_class import names_recipients, renders_itself
from .people import Pair, pairs_of


def own_envelope(message: object) -> GivenEnvelope | None:
    """Return the envelope as Flask-Mail takes it; None where the headers tell the same.

    The headers are the class's own: they may name nobody. Raises InvalidMessage.
    """
    if type(message) is flask_mail.Message or not isinstance(message, flask_mail.Message):
        return None
    if not renders_itself(message) and not names_recipients(message):
        return None
    with composing():
        head = read_head(message)
        people = _named(message) if names_recipients(message) else head.recipients
        recipients = tuple(dict.fromkeys([address for _, address in people]))
    if not recipients:
        raise InvalidMessage("recipients", "at least one is required")
    refuse_many(len(recipients))
    options = tuple(message.mail_options)
    return GivenEnvelope(sender=head.sender[1], recipients=recipients, mail_options=options)


def _named(message: flask_mail.Message) -> list[Pair]:
    # Sorted: a set has another order in another process, and a key's email must stay the same.
    return pairs_of("send_to", sorted(message.send_to, key=str))
