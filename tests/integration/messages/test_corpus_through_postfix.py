"""The corpus goes the worker's way through a real Postfix, and arrives as it was meant.

The whole of it goes to the server that offers everything. Each of the other servers gets the
messages that need an extension, and every third of the others; with `--whole` it gets all of them.

From the table over its relay to a server that offers more or less, and into a Maildir, where
foreign programs read it. What is signed verifies there. What needs an extension that is not offered
is not sent, and the log of its attempt names the extension.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from outbox.worker.drain import drain
from tests.support.corpus.meant import WRITERS, Meant, can_say
from tests.support.corpus.signed import SIGNED, verifies
from tests.support.corpus.whole import CORPUS
from tests.support.readers.reading import READERS, misread
from tests.support.servers.smtp.postfix import VARIANTS, Postfix
from tests.support.shop.shop import Shop, Shops

pytestmark = [pytest.mark.over_and_over, pytest.mark.databases("sqlite")]

WITHOUT_8BITMIME = "no 8BITMIME", "none of them"
WITHOUT_SMTPUTF8 = "no SMTPUTF8", "none of them"
EIGHT_BITS = {name for name in SIGNED if "eight bits" in name}
INTERNATIONAL = {name for name, meant in CORPUS.items() if meant.needs_smtputf8}


@dataclass
class Sent:
    """What was enqueued, each under the name of its meaning and of who wrote it."""

    rows: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    def of(self, names: set[str]) -> set[str]:
        """Return under which names the messages of these meanings were enqueued."""
        return {each for each, name in self.names.items() if name in names}

    @property
    def meant(self) -> dict[str, Meant]:
        return {each: CORPUS[name] for each, name in self.names.items()}


def chosen(variant: str, *, whole: bool) -> list[str]:
    """Return the names of the meanings that go to this server."""
    some = EIGHT_BITS | INTERNATIONAL | set(SIGNED) | set(list(CORPUS)[::3])
    return [name for name in CORPUS if whole or variant == "all" or name in some]


def enqueue(shop: Shop, names: list[str]) -> Sent:
    sent = Sent()
    with shop.app.app_context(), shop.session() as session:
        for writer in ("Flask-Mail", "a parser", "by hand"):
            for name in [name for name in names if can_say(writer, CORPUS[name])]:
                each = f"{name} ({writer})"
                row = shop.outbox.enqueue(WRITERS[writer](CORPUS[name]), session=session)
                sent.rows[each], sent.ids[each] = row.id, row.message_id
                sent.names[each] = name
        session.commit()
    return sent


def lacking(variant: str) -> dict[str, set[str]]:
    """Return which extension is missing for which meanings."""
    found = {}
    if variant in WITHOUT_8BITMIME:  # a header in UTF-8 needs it too (RFC 6531 §3.4)
        found["8BITMIME"] = EIGHT_BITS | INTERNATIONAL
    if variant in WITHOUT_SMTPUTF8:
        found["SMTPUTF8"] = INTERNATIONAL
    return found


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_corpus_is_delivered_by_postfix_and_read_as_it_was_meant(
    shops: Shops, postfix: Postfix, variant: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shop = shops.open(MAIL_PORT=postfix.ports[variant])
    names = chosen(variant, whole=request.config.getoption("--whole"))
    sent = enqueue(shop, names)
    drain(shop.runtime)

    replies = {
        row.email_id: row.reply for row in shop.rows(shop.tables.attempt) if row.verdict != "sent"
    }
    waiting = {each for each, row in sent.rows.items() if shop.status(row) != "sent"}
    wanted = {each: why for why, names in lacking(variant).items() for each in sent.of(names)}
    assert waiting == set(wanted), replies
    for each, extension in wanted.items():
        assert shop.status(sent.rows[each]) == "pending"
        assert extension in replies[sent.rows[each]], each

    taken = {each: message_id for each, message_id in sent.ids.items() if each not in waiting}
    messages = postfix.delivered(taken)
    assert len(messages) > (350 if len(names) == len(CORPUS) else 100)
    for reader in READERS:
        assert misread(reader, messages, tmp_path, sent.meant) == {}, reader
    for each in sent.of(set(SIGNED)) - waiting:
        assert verifies(sent.names[each], messages[each]), each
    assert [each for each, data in messages.items() if b"hidden@x.example" in data] == []
