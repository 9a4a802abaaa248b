"""Converts a `flask_mail.Message` to a standard message: the same parts, without the faults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from email.message import EmailMessage, Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import formatdate
from typing import Any

import flask_mail

from ...domain.errors import InvalidMessage
from ...domain.header.address import check_address
from ...domain.header.address import id_domain as domain_for_id
from ...domain.header.encoded_words import in_words, list_in_words
from ...domain.header.fields import (
    LEAKS,
    MAILBOXES,
    MAX_AUTHORS,
    MAX_HEADER,
    MAX_MAILBOX,
    NO_LIST,
    ORIGINATORS,
    parse_addresses,
    written,
)
from ...domain.header.signatures import is_dkim_signed, is_signed
from ...domain.message.render import refuse_many
from ...domain.mime.serialize import folded
from ...domain.values import value_type
from .attachment import part_of
from .checked_text import as_text, clean
from .message_id import of_domain
from .own_class import rendering, renders_itself
from .people import Pair, pair_of, pairs_of

_OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(=[!-~]+)?")
_FIELDS = frozenset({"from", "to", "cc", "bcc"})
"""Refused as extra headers: they would appear twice, and name people who do not get the email."""
_ONCE = frozenset({"date", "message-id", "mime-version", "reply-to", "subject"})
"""RFC 5322 §3.6 allows each once, and servers refuse two: an extra header replaces Flask-Mail's."""
_OF_BODY = frozenset({"content-type", "content-transfer-encoding"})
"""Refused as extra headers: they would contradict the body, which has its own."""
_NAMING = MAILBOXES | {"errors-to", "disposition-notification-to", "return-receipt-to"}
"""Headers whose addresses programs read. An encoded word must not hold one (RFC 2047 §5)."""
_FOLD = re.compile(r"\r?\n[ \t]+(?=[^\s])")


def standard(
    message: object, *, ascii_attachments: bool = False, id_domain: str = ""
) -> Message[Any, Any]:
    """Return a standard message for what a user hands to `enqueue`, or raise InvalidMessage.

    A Message-ID that Flask-Mail made gets the domain `id_domain`; if that is empty, the sender's.
    """
    if isinstance(message, flask_mail.Message):
        if renders_itself(message):
            return _as_its_class_renders_it(message, id_domain)
        with composing():
            return _compose(message, ascii_attachments, id_domain)
    if isinstance(message, (EmailMessage, Message)):
        return message
    raise InvalidMessage("message", "must be a flask_mail.Message or an email.message.EmailMessage")


@contextmanager
def composing() -> Iterator[None]:
    """Raise InvalidMessage for what cannot be composed: the caller learns it now."""
    try:
        yield
    except InvalidMessage:
        raise
    except LEAKS as error:
        reason = f"cannot be composed ({type(error).__name__})"
        raise InvalidMessage("message", reason) from None


def _as_its_class_renders_it(source: flask_mail.Message, id_domain: str) -> Message[Any, Any]:
    with composing():
        head = read_head(source, id_domain)
        for name, value in (source.extra_headers or {}).items():
            extra_value(clean("extra_headers", name), value)
    message = rendering(source)
    if message.get("Message-ID") == source.msgId and not is_signed(message):
        message.replace_header("Message-ID", head.message_id)
    for name in ("To", "Cc"):  # Flask-Mail writes an empty To (RFC 5322 §3.6.3)
        if not str(message.get(name, "-")).strip() and not is_dkim_signed(message):
            del message[name]
    del message["Bcc"]
    if head.recipients:  # `own_envelope` has all of them; a shared content with one is refused
        message["Bcc"] = head.recipients[0][1]
    return message


def _compose(
    source: flask_mail.Message, ascii_attachments: bool, id_domain: str
) -> Message[Any, Any]:
    head = read_head(source, id_domain)
    message: Message[Any, Any] = _body(source)
    for attachment in source.attachments or []:
        message.attach(part_of(attachment, ascii_name=ascii_attachments))
    for name, value in (*head.people, *head.rest):
        message[name] = value
    for name, value in (source.extra_headers or {}).items():
        _add_extra(message, clean("extra_headers", name), value)
    return message


def check_kinds(source: flask_mail.Message) -> None:
    """Raise InvalidMessage for headers or alternatives that are not given by their names."""
    for field, value in (("extra_headers", source.extra_headers or {}), ("alts", source.alts)):
        if not hasattr(value, "items"):
            raise InvalidMessage(field, "must be a dictionary")


def check_options(mail_options: object, rcpt_options: object) -> None:
    """Raise InvalidMessage for an invalid ESMTP parameter (RFC 5321 §4.1.2).

    One with a line break would be a second command.
    """
    for field, options in (("mail_options", mail_options), ("rcpt_options", rcpt_options)):
        if not isinstance(options, (list, tuple)):
            raise InvalidMessage(field, "must be a list of texts")
        for option in options:
            if not isinstance(option, str) or not _OPTION.fullmatch(option):
                rule = "each must be KEYWORD or KEYWORD=value in printable ASCII"
                raise InvalidMessage(field, rule)


@value_type(frozen=True, kw_only=True, slots=True)
class Head:
    """A message's fields, checked and formatted, in Flask-Mail's order."""

    sender: Pair
    recipients: tuple[Pair, ...]  # of To, Cc and Bcc
    people: list[tuple[str, str]]  # Subject and the fields that name people
    rest: list[tuple[str, str]]
    message_id: str


def read_head(source: flask_mail.Message, id_domain: str = "") -> Head:
    """Return the fields without the extra headers. Raises InvalidMessage, also for the options."""
    check_options(source.mail_options, source.rcpt_options)
    people = []
    if source.subject:
        people.append(("Subject", _text("subject", source.subject, "Subject")))
    if not source.sender:
        raise InvalidMessage("sender", "is required; set it or MAIL_DEFAULT_SENDER")
    sender = pair_of("sender", source.sender)
    people.append(("From", listed("From", [sender])))
    recipients: list[Pair] = []
    for name, addresses in (("To", source.recipients), ("Cc", source.cc), ("Bcc", source.bcc)):
        if addresses:
            field = "recipients" if name == "To" else name.lower()
            pairs = pairs_of(field, addresses)
            # Here, because a parser would need minutes for so long a list.
            refuse_many(len(recipients) + len(pairs))
            people.append((name, listed(name, pairs)))
            recipients += pairs
    rest = [] if source.date is None else [("Date", _date(source.date))]
    own_id = of_domain(source.msgId, id_domain or domain_for_id(sender[1]))
    message_id = own_id or clean("msgId", source.msgId)
    rest.append(("Message-ID", message_id))
    if source.reply_to:
        rest.append(("Reply-To", listed("Reply-To", [pair_of("reply_to", source.reply_to)])))
    return Head(
        sender=sender,
        recipients=tuple(recipients),
        people=people,
        rest=rest,
        message_id=message_id,
    )


def _add_extra(message: Message[Any, Any], name: str, value: object) -> None:
    if name.lower() in _FIELDS:
        raise InvalidMessage("extra_headers", "From, To, Cc and Bcc are fields of the message")
    if name.lower() in _OF_BODY:
        raise InvalidMessage("extra_headers", f"{name} is the body's: give html, alts or charset")
    if name.lower() in _ONCE:
        del message[name]
    message[name] = extra_value(name, value)


def extra_value(name: str, value: object) -> str:
    """Return the value of an extra header, checked and folded."""
    if value is None:
        raise InvalidMessage("extra_headers", f"the value of {name} must be text, not None")
    text = _one_line("extra_headers", value)
    if not text.isascii():
        if name.lower() in _NAMING:
            return _listed(name, [_mailbox(name, *one) for one in _people(name, text)])
        if name.lower() == "list-id" and (found := list_in_words(text, name)):
            return found
    return _written(name, text)


def _mailbox(name: str, shown: str, address: str) -> str:
    """Return one address with its name, whose first word has room behind a long header's name."""
    if shown.isascii() or not address.isascii():
        return written(shown, address)
    return f"{in_words(shown, name)} <{address}>"


def _people(name: str, text: str) -> list[Pair]:
    """Return the people whom an extra header names, or raise InvalidMessage."""
    if len(text) > MAX_AUTHORS or any(len(one) > MAX_MAILBOX for one in text.split(",")):
        raise InvalidMessage("extra_headers", f"{name} is too long for addresses with names")
    try:
        found = parse_addresses(name, text)
    except InvalidMessage:
        found = ()
    if not found:
        raise InvalidMessage("extra_headers", f"{name} {NO_LIST}")
    pairs = [(one.display_name, check_address(one.addr_spec, "extra_headers")) for one in found]
    known = name.title() in ORIGINATORS  # the others' addresses would be encoded
    if not known and not all(address.isascii() for _, address in pairs):
        raise InvalidMessage("extra_headers", f"an address in {name} must be in ASCII")
    return pairs


def texts_of(source: flask_mail.Message) -> list[tuple[Any, Any]]:
    """Return the subtype and the text of each alternative, the plainest first (RFC 2046 §5.1.4).

    An empty text beside HTML is left out: spam filters count it, and some readers show it.
    """
    alternatives: list[tuple[Any, Any]] = list(source.alts.items())
    if not source.body and source.alts.get("html"):
        return alternatives
    return [("plain", source.body), *alternatives]


def _body(source: flask_mail.Message) -> MIMEBase:
    """Return a text alone, or a multipart as Flask-Mail makes it."""
    parts = [_part(source, text, clean("alts", kind)) for kind, text in texts_of(source)]
    if len(parts) == 1 and not source.attachments:
        return parts[0]
    message = MIMEMultipart()
    message.attach(parts[0] if len(parts) == 1 else MIMEMultipart("alternative", None, parts))
    return message


def _part(source: flask_mail.Message, text: object, subtype: str) -> MIMEText:
    charset = clean("charset", source.charset or "utf-8")
    try:
        return MIMEText("" if text is None else as_text("body", text), subtype, charset)
    except (LookupError, UnicodeError):
        raise InvalidMessage("charset", "cannot encode the text") from None


def _date(seconds: float) -> str:
    try:
        return formatdate(seconds, localtime=True)
    except (TypeError, ValueError, OverflowError, OSError):
        raise InvalidMessage("date", "must be seconds since 1970") from None


def _text(field: str, value: object, name: str) -> str:
    """Return the value folded; accept the user's tabs and legal folds, as Flask-Mail does."""
    return _written(name, _one_line(field, value))


def _one_line(field: str, value: object) -> str:
    """Return the value without its legal folds."""
    text = as_text(field, value)
    if len(text) > MAX_HEADER:  # formatting it could take seconds
        raise InvalidMessage(field, f"has more than {MAX_HEADER} characters")
    text = _FOLD.sub(" ", text) if "\n" in text else text
    clean(field, text.replace("\t", " "))
    return text


def _written(name: str, text: str) -> str:
    return folded(name, text) if text.isascii() else in_words(text, name)


def listed(name: str, pairs: Iterable[Pair]) -> str:
    """Return the value of a header that names these people."""
    return _listed(name, [written(*pair) for pair in pairs])


def _listed(name: str, mailboxes: Iterable[str]) -> str:
    text = ", ".join(dict.fromkeys(mailboxes))
    return folded(name, text) if text.isascii() else text


def author(source: flask_mail.Message) -> str:
    """Return the address of the message's sender, which is Flask-Mail's envelope sender.

    A Sender among the extra headers does not replace it.
    """
    return pair_of("sender", source.sender)[1]
