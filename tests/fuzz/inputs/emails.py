"""An email from outside is refused by field and rule, or goes out as it was given and no more.

The whole way: `enqueue` in a transaction with a business row, the table, the relay, a socket, and a
server that takes nothing but what the RFCs allow.
"""

from __future__ import annotations

import email
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email import policy
from email.message import EmailMessage
from email.utils import unquote
from typing import Any

import flask_mail
import idna
import sqlalchemy as sa
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from outbox import InvalidMessage, KeyConflict, Status
from outbox.worker.drain import drain
from tests.fuzz.campaign import Property
from tests.fuzz.inputs import drafts
from tests.fuzz.inputs.drafts import Draft
from tests.fuzz.strict import StrictServer, Taken
from tests.support.shop.shop import Shop, Shops

_OURS = {"date", "message-id", "mime-version", "content-type", "content-transfer-encoding"}
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_UNREAD = re.compile(r"[\ud800-\udfff]|=\?")
"""Python writes a lone surrogate as an octet that it could not read, and encoded words as such."""
_HIDDEN = {"bcc", "resent-bcc"}

SOURCES: dict[str, st.SearchStrategy[Draft]] = {
    "addresses": drafts.addresses,
    "headers": drafts.headers,
    "file names": drafts.file_names,
    "bodies": drafts.bodies,
}


@contextmanager
def properties(url: str) -> Iterator[list[Property]]:
    """Open a shop on this database whose emails go to the strict server."""
    with StrictServer() as server:
        shops = Shops(url=url)
        try:
            shop = shops.open(MAIL_PORT=server.port)
            flask_mail.Mail(shop.app)
            way = _Way(shop, server)
            yield [
                Property(source=source, inputs=inputs, holds=way.holds)
                for source, inputs in SOURCES.items()
            ]
        finally:
            shops.close()


class _Way:
    """The way of an email from `enqueue` to the server."""

    def __init__(self, shop: Shop, server: StrictServer) -> None:
        self._shop = shop
        self._server = server
        self._orders = 0

    def holds(self, draft: Draft) -> None:
        with self._shop.app.app_context():
            try:
                message = draft.message()
            except (ValueError, TypeError, LookupError, AttributeError):
                return  # the standard library or Flask-Mail raised: nothing came to us
            with self._shop.session() as session:
                self._orders += 1
                self._shop.order(session, f"customer {self._orders}")
                accepted = self._enqueued(draft, message, session)
                if not accepted:
                    self._nothing_written(session)
                session.commit()
        try:
            if accepted:
                self._arrives(draft)
        finally:
            self._server_and_tables_emptied()

    def _enqueued(self, draft: Draft, message: Any, session: Session) -> bool:
        try:
            if draft.kind == "newsletter":
                self._shop.outbox.enqueue_many(message, draft.recipients, session=session)
            else:
                self._shop.outbox.enqueue(message, session=session, **draft.options)
        except InvalidMessage as error:
            assert error.field  # noqa: PT017
            assert error.rule  # noqa: PT017
            assert str(error).isprintable()  # noqa: PT017
            return False
        except KeyConflict:
            return False
        return True

    def _nothing_written(self, session: Session) -> None:
        """The caller's transaction goes on, and holds nothing of the email."""
        for table in (self._shop.tables.email, self._shop.tables.content):
            assert not session.execute(sa.select(sa.func.count()).select_from(table)).scalar()

    def _arrives(self, draft: Draft) -> None:
        drain(self._shop.runtime)
        rows = self._shop.rows(self._shop.tables.email)
        attempts = self._shop.rows(self._shop.tables.attempt)
        emails = self._server.taken()
        for row in rows:
            assert row.status == Status.SENT, [attempt.reply for attempt in attempts]
        assert len(emails) == len(rows) > 0
        for row, mail in zip(rows, emails, strict=True):
            _check(draft, mail, row)

    def _server_and_tables_emptied(self) -> None:
        self._server.drop()
        tables = self._shop.tables
        with self._shop.engine.begin() as connection:
            for table in (tables.attempt, tables.recipient, tables.email, tables.content):
                connection.execute(sa.delete(table))
            connection.execute(sa.delete(tables.lease))
            connection.execute(sa.delete(tables.breaker))


def _check(draft: Draft, mail: Taken, row: Any) -> None:
    names = [name.lower() for name, _ in mail.fields]
    assert not _HIDDEN & set(names)
    for _, value in mail.fields:
        assert not _CONTROL.search(value.replace(b"\r\n", b"")), "a control character in a header"
    _check_names(draft, names)
    text = mail.content.decode("utf-8", "surrogateescape")
    read: Any = email.message_from_string(text, policy=policy.default)
    assert [name.lower() for name in read.keys()] == names  # noqa: SIM118
    # A newsletter's names go out as they are, also one that Python's reader would not decode.
    if draft.kind != "newsletter" or "=?" not in str(draft.values.get("name")):
        _check_people(draft, mail, read)
    octets: Any = email.message_from_bytes(mail.content, policy=policy.default)
    _check_values(draft, octets)


def _check_names(draft: Draft, names: list[str]) -> None:
    """Each header given is there once for each time it was given, and no other but ours."""
    with_ours = Counter(names)
    if draft.kind in ("flask", "newsletter"):
        given = {"subject", "from", "to", "cc", "reply-to"}
        given |= {str(draft.values.get("header_name", "X-Own")).lower()}
        assert set(names) <= given | _OURS
        twice = {name for name, times in with_ours.items() if times > 1}
        assert twice <= {str(draft.values.get("header_name", "")).lower()}  # asked for again
        return
    given_names = Counter(name.lower() for name in draft.message().keys())  # noqa: SIM118
    for name in given_names.keys() | with_ours.keys():
        if name in _HIDDEN:
            continue
        known = given_names[name]
        assert with_ours[name] == known or (name in _OURS and with_ours[name] >= known), name


def _check_people(draft: Draft, mail: Taken, read: EmailMessage) -> None:
    """Whoever gets it is named in it, or was given as a Bcc; and the other way round."""
    named, written_to = _addresses(read, "To", "Cc"), set(map(_unquoted, mail.recipients))
    assert len(set(mail.recipients)) == len(mail.recipients)
    assert named <= written_to, "somebody named gets no copy"
    if not _has_bcc(draft):
        assert named == written_to, "somebody gets a copy and is not named"
    assert _unquoted(mail.sender) in _addresses(read, "From", "Sender")
    if draft.kind == "newsletter":
        assert mail.recipients[0] in {drafts.TO, _wire(draft.values.get("to", drafts.TO))}


def _has_bcc(draft: Draft) -> bool:
    """As a parser finds it: a CR in the octets begins a header as a line end does."""
    keys = () if draft.kind == "flask" else draft.message().keys()
    return "bcc" in draft.values or any(name.lower() == "bcc" for name in keys)


def _addresses(read: EmailMessage, *names: str) -> set[str]:
    found: set[str] = set()
    for name in names:
        for header in read.get_all(name, []):
            found |= {_unquoted(address.addr_spec) for address in header.addresses}
    return found


def _unquoted(address: str) -> str:
    """The mailbox that it names, however it is written (RFC 5321 §4.1.2)."""
    local, at, domain = address.rpartition("@")
    if local.startswith('"') and local.endswith('"'):
        local = re.sub(r"\\(.)", r"\1", local[1:-1])
    return local + at + domain


def _wire(address: str) -> str:
    """The address with its domain as IDNA 2008 writes it."""
    local, _, domain = address.rpartition("@")
    if domain.isascii():
        return address
    return f"{local}@{idna.encode(domain, uts46=True).decode()}"


def _check_values(draft: Draft, read: EmailMessage) -> None:
    subject = draft.values.get("subject")
    if draft.values.get("header_name") == "Subject":
        subject = None  # the header of its own took its place, in some kinds of message
    if isinstance(subject, str) and draft.kind != "parsed" and not _UNREAD.search(subject):
        assert _bare(read.get("Subject", "")) == _bare(subject)
    own = draft.values.get("header")
    if isinstance(own, str) and draft.kind == "flask" and "header_name" not in draft.values:
        assert "=?" in own or _bare(read.get("X-Own", "")) == _bare(own)
    filename = draft.values.get("filename")
    if filename and draft.kind in ("flask", "standard", "legacy") and "=?" not in filename:
        found = [part.get_filename() or "" for part in read.walk() if not part.is_multipart()]
        # Python's reader takes quotes and angle brackets off, whoever put them there.
        assert found[-1].strip() == unquote(filename).strip()
    body = draft.values.get("body")
    if not isinstance(body, str) or draft.values.keys() & {"html", "charset"}:
        return
    if draft.kind in ("flask", "standard"):
        part: Any = read.get_body(("plain",))
        assert part is not None
        assert _lines(part.get_content()) == _lines(body)


def _bare(text: str) -> str:
    """Without blanks: where a header is folded they come and go."""
    return "".join(text.split())


def _lines(text: str) -> list[str]:
    plain = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    return plain.split("\n")
