"""What Flask-Mail's own `send` brings through the same Postfix, where it differs from ours.

`docs/messages.md` says of each such message who is right. Its table has these and no others.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.readers.reading import READERS, is_unread
from tests.support.readers.seen import Seen, differences
from tests.support.servers.smtp.postfix import Postfix
from tests.support.shop.both_ways import MEANT, by_flask_mail, by_the_outbox
from tests.support.shop.shop import Shops

pytestmark = [pytest.mark.over_and_over, pytest.mark.databases("sqlite")]

DOCUMENT = Path(__file__).parents[3] / "docs" / "messages.md"


def misread(name: str, seen: Seen) -> object:
    """Flask-Mail leaves to chance in which order people stand: no reader is told otherwise."""
    found = differences(seen, MEANT[name])
    for part in {"to", "cc"} & found.keys():
        got, wanted = map(sorted, found.pop(part))
        if got != wanted:
            found[part] = (got, wanted)
    return found


def in_the_table() -> list[str]:
    rows = re.findall(r"^\| (`[^|]*) \|", DOCUMENT.read_text(), re.MULTILINE)
    return [name for row in rows for name in re.findall("`([^`]+)`", row)]


@pytest.mark.long
def test_the_table_has_each_message_that_flask_mail_says_otherwise(
    shops: Shops, postfix: Postfix, tmp_path: Path
) -> None:
    ours, theirs = by_the_outbox(shops, postfix), by_flask_mail(postfix)
    different = MEANT.keys() - theirs.keys()
    for reader, read in READERS.items():
        folders = [tmp_path / f"{reader} of {whose}" for whose in ("ours", "theirs")]
        for folder in folders:
            folder.mkdir()
        mine, others = read(ours, folders[0]), read(theirs, folders[1])
        for name in theirs:
            if is_unread(reader, ours[name]):
                assert misread(name, others[name]), (reader, name, "reads it of Flask-Mail")
                continue
            assert misread(name, mine[name]) == {}, reader
            if misread(name, others[name]):
                different.add(name)
    assert sorted(in_the_table()) == sorted(different)
