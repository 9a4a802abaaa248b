"""What we render, other people's parsers read as it was meant: texts, HTML, names, files."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from outbox.domain.message.personalize import individuals, message_ids
from outbox.domain.message.render import RenderedMessage, render, render_shared
from outbox.domain.mime.seven_bit import seven_bit
from outbox.flask_ext.messages import fast_path
from outbox.flask_ext.messages.convert import standard
from tests.support.corpus.meant import WRITERS, Given, can_say
from tests.support.corpus.signed import SIGNED
from tests.support.corpus.whole import CORPUS
from tests.support.readers.reading import READERS, misread

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("flask_mail_context")]

LIMITS: dict[str, Any] = {"max_size": 10**7, "split_size": 10**7}


def rendered(given: Given) -> RenderedMessage:
    found = fast_path.render_fast(given, send_at=None, **LIMITS)
    return found or render(standard(given), send_at=None, **LIMITS)


def octets(mail: RenderedMessage) -> bytes:
    return mail.headers + mail.content


def test_the_corpus_is_large_enough_and_all_of_it_is_written() -> None:
    assert len(CORPUS) >= 120
    assert all(any(can_say(writer, meant) for writer in WRITERS) for meant in CORPUS.values())


@cache
def written_by(writer: str) -> dict[str, RenderedMessage]:
    """Render once what each reader reads."""
    written = {name: meant for name, meant in CORPUS.items() if can_say(writer, meant)}
    return {name: rendered(WRITERS[writer](meant)) for name, meant in written.items()}


@pytest.mark.over_and_over
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_message_is_read_as_it_was_meant(writer: str, reader: str, tmp_path: Path) -> None:
    emails = written_by(writer)
    if writer in ("Flask-Mail", "EmailMessage"):
        assert [name for name, mail in emails.items() if mail.eightbit] == [
            name for name in emails if CORPUS[name].needs_smtputf8
        ]
    assert misread(reader, {name: octets(mail) for name, mail in emails.items()}, tmp_path) == {}


@pytest.mark.parametrize("reader", READERS)
def test_a_content_that_many_share_is_read_as_it_was_meant(reader: str, tmp_path: Path) -> None:
    messages = {}
    for name, meant in CORPUS.items():
        if len(meant.to) > 1 or meant.cc or meant.bcc or not can_say("Flask-Mail", meant):
            continue
        message = standard(meant.as_flask_mail(recipients=[]))
        del message["Message-ID"]
        sender, content, smtputf8 = render_shared(message, send_at=None, max_size=10**7)
        (mail,) = individuals(
            list(meant.to), message_ids(sender), sender=sender, content=content, smtputf8=smtputf8
        )
        messages[name] = octets(mail)
    messages.pop("a Message-ID of one's own")  # each reader's email has its own
    assert len(messages) > 120
    assert misread(reader, messages, tmp_path) == {}


@pytest.mark.over_and_over
@pytest.mark.parametrize("reader", READERS)
def test_what_a_server_without_8bitmime_gets_is_read_as_it_was_meant(
    reader: str, tmp_path: Path
) -> None:
    messages = {}
    for name, meant in CORPUS.items():
        if name in SIGNED or not (can_say("a parser", meant) or can_say("by hand", meant)):
            continue
        mail = rendered(meant.as_by_hand() if meant.by_hand else meant.as_parsed())
        if mail.eightbit:
            content = seven_bit(mail.content)
            assert content is not None, name
            messages[name] = octets(replace(mail, content=content))
    assert len(messages) > 20
    assert misread(reader, messages, tmp_path) == {}
