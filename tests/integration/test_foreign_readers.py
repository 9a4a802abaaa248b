"""What we render, other people's parsers read as it was meant: texts, HTML, names, files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outbox.domain.message import Prepared, prepare, render_shared
from outbox.domain.newsletter import individuals, message_ids
from outbox.domain.seven_bit import seven_bit
from outbox.web import letter
from outbox.web.compose import standard
from tests.corpus.meant import FLASK_MAIL_ALONE, MEANT, READER, WRITERS, Given, Meant
from tests.readers import email_mime, notmuch
from tests.readers.seen import Seen, as_seen

pytestmark = pytest.mark.usefixtures("flask_mail_context")

LIMITS: dict[str, Any] = {"max_size": 10**7, "split_size": 10**7}
READERS: dict[str, Callable[[Path, str], Seen]] = {
    "Email::MIME": email_mime.read,
    "notmuch": notmuch.read,
}


UNREAD = {("notmuch", "a long subject in emoji")}
"""GMime ends a run of words in base64 at the first padding, though each is one (RFC 2047 §5)."""


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Prepared], Seen]:
    """Reads an email as one of the programs does."""
    read = READERS[request.param]

    def look(mail: Prepared) -> Seen:
        path = tmp_path / "message.eml"
        path.write_bytes(mail.headers + mail.content)
        return read(path, mail.message_id)

    return look


def rendered(given: Given) -> Prepared:
    found = letter.prepare(given, send_at=None, **LIMITS)
    return found or prepare(standard(given), send_at=None, **LIMITS)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", MEANT)
def test_a_message_is_read_as_it_was_meant(
    request: pytest.FixtureRequest, reader: Callable[[Prepared], Seen], writer: str, name: str
) -> None:
    mail = rendered(WRITERS[writer](MEANT[name]))
    assert not mail.eightbit or writer == "a parser"
    seen, meant = reader(mail), as_seen(MEANT[name])
    if (request.node.callspec.params["reader"], name) in UNREAD:
        assert seen != meant
    else:
        assert seen == meant


@pytest.mark.parametrize("name", FLASK_MAIL_ALONE)
def test_what_flask_mail_alone_can_say_is_read_as_it_was_meant(
    reader: Callable[[Prepared], Seen], name: str
) -> None:
    meant, changes = FLASK_MAIL_ALONE[name]
    assert reader(rendered(meant.as_flask_mail(**changes))) == as_seen(meant)


@pytest.mark.parametrize("name", ["German", "Chinese", "HTML alone", "files", "names"])
def test_a_content_that_many_share_is_read_as_it_was_meant(
    reader: Callable[[Prepared], Seen], name: str
) -> None:
    meant = replace(MEANT[name], to=(("Größe, Ada", READER[1]),))
    message = standard(meant.as_flask_mail(recipients=[]))
    sender, content, smtputf8 = render_shared(message, send_at=None, max_size=10**7)
    (mail,) = individuals(
        list(meant.to), message_ids(sender), sender=sender, content=content, smtputf8=smtputf8
    )
    assert reader(mail) == as_seen(meant)


def eight_bit() -> list[str]:
    return [name for name, meant in MEANT.items() if not (meant.text or "").isascii()]


@pytest.mark.parametrize("name", eight_bit())
def test_what_a_server_without_8bitmime_gets_is_read_as_it_was_meant(
    reader: Callable[[Prepared], Seen], name: str
) -> None:
    meant: Meant = MEANT[name]
    mail = rendered(meant.as_parsed())
    content = seven_bit(mail.content) if mail.eightbit else mail.content
    assert content is not None
    assert reader(replace(mail, content=content)) == as_seen(meant)
