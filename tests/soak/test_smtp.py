"""The soak's SMTP server: what a client was told is on record, whatever the server's mood."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.soak.classes import (
    DENIED_DOMAIN,
    FOR_GOOD,
    HUGE,
    LARGE,
    MOODY_DOMAIN,
    MOODY_SENDER,
    OTHER_DOMAIN,
    REPLIES,
    SHOP,
    THROTTLED,
    Refusal,
    Trait,
    for_some_time,
)
from tests.soak.facts import Facts, read_notes
from tests.soak.hosts.smtp import PLACES, SoakSmtp
from tests.soak.hosts.wire import BUSINESS, DOMAIN, address

MAILS, AT_MOST = 30, 300
TIMEOUT = 0.2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SoakSmtp]:
    with SoakSmtp(tmp_path / "notes") as made:
        yield made


def _send(
    server: SoakSmtp,
    reference: str,
    *,
    refused: str = "",
    domain: str = DOMAIN,
    sender: str = SHOP,
    octets: int = 0,
) -> str:
    """Send one email; return its address. What the server does wrong is raised."""
    to = address(reference, 0, refused, domain)
    header = f"Message-ID: <{reference}@x>\r\n{BUSINESS}: {reference}\r\n"
    text = "Hello.\r\n" * (1 + octets // 8)
    with smtplib.SMTP("127.0.0.1", server.port, timeout=TIMEOUT) as client:
        client.sendmail(sender, [to], f"{header}\r\n{text}")
    return to


def _facts(server: SoakSmtp) -> Facts:
    facts = Facts()
    read_notes(facts, server.notes.read_text().splitlines())
    return facts


def test_an_email_is_noted_with_its_message_id_and_its_order(server: SoakSmtp) -> None:
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


@pytest.mark.long
@pytest.mark.parametrize("how", PLACES)
def test_no_mood_takes_an_email_in_silence_or_answers_for_one_that_is_not_noted(
    server: SoakSmtp, how: str
) -> None:
    server.misbehave(how, share=1.0, seconds=2 * TIMEOUT)
    takes_in_silence = how in ("drop", "hang")
    told = set()
    for number in range(AT_MOST):
        with suppress(smtplib.SMTPException, OSError):
            told.add(_send(server, f"mail{number}"))
        # Chance decides where the server misbehaves, and this is one place of several.
        if number >= MAILS and (not takes_in_silence or _facts(server).copies.keys() - told):
            break
    server.behave()
    told.add(_send(server, "last"))
    facts = _facts(server)
    assert told <= facts.copies.keys()
    if takes_in_silence:
        assert facts.unanswered >= len(facts.copies.keys() - told) > 0
    else:
        assert told == facts.copies.keys()
        assert len(told) < MAILS


INSIDE: dict[Trait, dict[str, Any]] = {
    "domain": {"domain": MOODY_DOMAIN},
    "sender": {"sender": MOODY_SENDER},
    "size": {"octets": LARGE},
}
"""What is refused for some time, each by the trait that names it."""

NEVER: tuple[dict[str, Any], ...] = (
    {"domain": str(FOR_GOOD[0].value)},
    {"domain": DENIED_DOMAIN},
    {"sender": THROTTLED},
    {"octets": HUGE},
)


def _told(server: SoakSmtp, reference: str, **traits: Any) -> int:
    """Send such an email; return the code of the refusal, or 250."""
    try:
        _send(server, reference, **traits)
    except smtplib.SMTPRecipientsRefused as error:
        [(code, _)] = error.recipients.values()
        return int(code)
    except smtplib.SMTPResponseException as error:
        return error.smtp_code
    return 250


@pytest.mark.parametrize(
    ("trait", "place", "reply"), [(t, *how) for t, hows in REPLIES.items() for how in hows]
)
def test_a_class_is_refused_while_it_shall_be_and_nobody_else_is(
    server: SoakSmtp, trait: Trait, place: str, reply: str
) -> None:
    refusal = for_some_time("a class refused", 3.5, trait=trait, place=place, reply=reply)
    server.refuse(refusal)
    for name, traits in INSIDE.items():
        expected = int(reply[:3]) if name == trait else 250
        assert _told(server, f"while-{name}", **traits) == expected
    assert _told(server, "else", domain=OTHER_DOMAIN) == 250
    server.accept(refusal)
    assert _told(server, "after", **INSIDE[trait]) == 250
    facts = _facts(server)
    refused = facts.classes["a class refused at 3.5"]
    others = [*INSIDE, "else"][list(INSIDE).index(trait) + 1 :]  # after it; none that came later
    assert (refused.times, refused.taken) == (1, len(others))
    assert len(facts.copies) == len(INSIDE) + 1


@pytest.mark.long
def test_a_mood_leaves_a_refusal_as_it_is_and_so_does_a_restart(server: SoakSmtp) -> None:
    server.refuse(
        for_some_time("a", 0, trait="domain", place="RCPT", reply="450 4.2.0 not this one")
    )
    server.misbehave("4xx", share=0.0)
    server.behave()
    server.kill_9()
    server.start()
    assert _told(server, "one", domain=MOODY_DOMAIN) == 450


@pytest.mark.parametrize(("refusal", "traits"), list(zip(FOR_GOOD, NEVER, strict=True)))
def test_some_classes_are_never_taken(
    server: SoakSmtp, refusal: Refusal, traits: dict[str, Any]
) -> None:
    for number in range(2):
        assert _told(server, f"never-{number}", **traits) == int(refusal.reply[:3])
        assert _told(server, f"else-{number}") == 250
    facts = _facts(server)
    assert len(facts.copies) == 2
    refused = facts.classes[refusal.name]
    assert (refused.times, refused.taken) == (2, 2)
