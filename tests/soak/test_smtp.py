"""The soak's SMTP server: what a client was told is on record, whatever the server's mood."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.soak.facts import Facts, read_notes
from tests.soak.smtp import PLACES, SoakSmtp
from tests.soak.wire import BUSINESS, address

MAILS = 30
TIMEOUT = 0.2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SoakSmtp]:
    with SoakSmtp(tmp_path / "notes") as made:
        yield made


def _send(server: SoakSmtp, reference: str, *, refused: str = "") -> str:
    """Send one mail; return its address. What the server does wrong is raised."""
    to = address(reference, 0, refused)
    header = f"Message-ID: <{reference}@x>\r\n{BUSINESS}: {reference}\r\n"
    with smtplib.SMTP("127.0.0.1", server.port, timeout=TIMEOUT) as client:
        client.sendmail("shop@x", [to], f"{header}\r\nHello.\r\n")
    return to


def _facts(server: SoakSmtp) -> Facts:
    facts = Facts()
    read_notes(facts, server.notes.read_text().splitlines())
    return facts


def test_a_mail_is_noted_with_its_message_id_and_its_order(server: SoakSmtp) -> None:
    to = _send(server, "one")
    [copy] = _facts(server).copies[to]
    assert (copy.message_id, copy.order) == ("<one@x>", "one")


@pytest.mark.parametrize("mark", ["refused-rcpt", "refused-dot"])
def test_who_is_refused_on_purpose_gets_nothing(server: SoakSmtp, mark: str) -> None:
    with pytest.raises((smtplib.SMTPRecipientsRefused, smtplib.SMTPDataError)):
        _send(server, "one", refused=mark)
    facts = _facts(server)
    assert not facts.copies
    assert [replies[0][0] for replies in facts.refused.values()] == ["5"]


@pytest.mark.parametrize("how", PLACES)
def test_no_mood_takes_a_mail_in_silence_or_answers_for_one_that_is_not_noted(
    server: SoakSmtp, how: str
) -> None:
    server.misbehave(how, share=1.0, seconds=2 * TIMEOUT)
    told = set()
    for number in range(MAILS):
        with suppress(smtplib.SMTPException, OSError):
            told.add(_send(server, f"mail{number}"))
    server.behave()
    told.add(_send(server, "last"))
    facts = _facts(server)
    assert told <= facts.copies.keys()
    if how in ("drop", "hang"):
        assert facts.unanswered >= len(facts.copies.keys() - told) > 0
    else:
        assert told == facts.copies.keys()
        assert len(told) < MAILS
