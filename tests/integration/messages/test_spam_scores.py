"""SpamAssassin thinks no worse of what we send than of the same messages by smtplib.

It reads for half a minute, and its rules change with Debian: so it is asked under `--whole` alone,
which CI does not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.readers.spam_assassin import Score, scores
from tests.support.servers.smtp.postfix import Postfix
from tests.support.shop.both_ways import by_flask_mail, by_smtplib, by_the_outbox
from tests.support.shop.shop import Shops

pytestmark = [pytest.mark.databases("sqlite"), pytest.mark.usefixtures("under_whole")]

ABOVE_FLASK_MAIL = {
    # SpamAssassin exempts a message with a line over 998 octets from a rule (__LONGLINE). RFC 5322
    # §2.1.1 forbids such a line: we encode it, as the standard library does.
    "a parcel on its way",
    # A name that is an address costs 0.01. Flask-Mail's message has lost the sender's own address.
    "a name with an address",
}
"""What scores higher than by Flask-Mail, and as high as by the standard library and smtplib."""


@pytest.fixture
def under_whole(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--whole"):
        pytest.skip("SpamAssassin is asked under --whole")


def scored(messages: Mapping[str, bytes], folder: Path) -> dict[str, Score]:
    folder.mkdir()
    return scores(messages, folder)


def above(ours: Mapping[str, Score], theirs: Mapping[str, Score]) -> dict[str, object]:
    """Return those of ours that score higher, with the rules that theirs do not meet."""
    return {
        name: (ours[name].score, score.score, ours[name].rules - score.rules)
        for name, score in theirs.items()
        if ours[name].score > score.score
    }


@pytest.mark.long
def test_nothing_of_the_standard_library_scores_higher_than_by_smtplib(
    shops: Shops, postfix: Postfix, tmp_path: Path
) -> None:
    ours = scored(by_the_outbox(shops, postfix, "EmailMessage"), tmp_path / "ours")
    theirs = scored(by_smtplib(postfix, set(ours)), tmp_path / "theirs")
    assert len(theirs) > 120
    assert above(ours, theirs) == {}


@pytest.mark.long
def test_nothing_of_flask_mail_scores_higher_than_by_flask_mail_or_by_smtplib(
    shops: Shops, postfix: Postfix, tmp_path: Path
) -> None:
    ours = scored(by_the_outbox(shops, postfix), tmp_path / "ours")
    theirs = scored(by_flask_mail(postfix), tmp_path / "theirs")
    assert len(theirs) > 120
    assert above(ours, theirs).keys() == ABOVE_FLASK_MAIL
    standard = scored(by_smtplib(postfix, ABOVE_FLASK_MAIL), tmp_path / "standard")
    assert standard.keys() == ABOVE_FLASK_MAIL
    assert above(ours, standard) == {}
