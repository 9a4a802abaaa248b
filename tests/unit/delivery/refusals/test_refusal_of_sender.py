"""A refusal of the sender, or of our account, is no refusal of the recipient, whatever its code."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.refusal_fingerprint import fingerprint
from outbox.domain.delivery.transaction import Phase, Reply

EXIM = "Sender verify failed"
OF_SENDER = [
    (Phase.RCPT, 550, "", "Verification failed for <a@shop.example> No Such User Here " + EXIM),
    (Phase.RCPT, 550, "5.1.0", "<a@shop.example>: Sender address rejected: User unknown in table"),
    (Phase.RCPT, 550, "", "Your account has been disabled"),
    (Phase.MAIL, 550, "5.1.0", "<a@shop.example> sender rejected"),
    (Phase.MAIL, 550, "5.1.1", "user unknown"),
    (Phase.MAIL, 550, "", "Your account has been disabled"),
    (Phase.MAIL, 550, "", "mailbox unavailable"),
    (Phase.MAIL, 550, "5.2.1", "mailbox disabled"),
    (Phase.DOT, 554, "5.2.252", "SendAsDenied; a@shop.example not allowed to send as b@x.example"),
    (Phase.DOT, 554, "5.2.0", "STOREDRV.Submission.Exception:OutboundSpamException; Failed to do"),
    (Phase.DOT, 550, "5.2.1", "Your account is disabled"),
    (Phase.DOT, 554, "5.2.0", "Message could not be submitted"),
]


@pytest.mark.parametrize(("phase", "code", "enhanced", "text"), OF_SENDER)
def test_what_is_said_of_the_sender_or_the_account_is_said_to_every_email(
    phase: Phase, code: int, enhanced: str, text: str
) -> None:
    assert fingerprint(phase, Reply(code=code, enhanced=enhanced, text=text)) is not None


STOCK = "Requested action not taken: mailbox unavailable"
BUSY = "Requested mail action not taken: mailbox unavailable (e.g., mailbox busy or temporarily"


@pytest.mark.parametrize(
    ("text", "is_servers"),
    [
        (f"{STOCK} Failure sending mail. Try again later", True),
        (f"{STOCK} Sender address is not allowed.", True),
        (f"{STOCK} Nemesis ESMTP Service not available", True),
        (f"{STOCK} User unknown", False),
        (STOCK, False),
        (f"{STOCK} (SNT004-MC2F35)", False),
        (f"{STOCK} For explanation visit https://postmaster.gmx.example/?c=r", False),
        (f"{BUSY} blocked for policy reasons)", False),
        ("Relay not allowed.", True),
        ("user unknown in relay recipient table", False),
    ],
)
def test_behind_the_rfcs_own_phrase_a_server_says_what_it_means(
    text: str, is_servers: bool
) -> None:
    """IONOS and GMX begin every refusal with that phrase."""
    found = fingerprint(Phase.RCPT, Reply(code=550, text=text))
    assert (found is not None) is is_servers


@pytest.mark.parametrize(
    "text", ["Relay not allowed.", "Relaying denied", "Unable to relay", "Authentication required"]
)
def test_that_we_may_not_relay_is_no_matter_of_the_recipient(text: str) -> None:
    assert fingerprint(Phase.RCPT, Reply(code=550, enhanced="5.1.2", text=text)) is not None


@pytest.mark.parametrize("phase", [Phase.DATA, Phase.DOT])
@pytest.mark.parametrize(
    ("code", "enhanced", "text"),
    [
        (550, "5.1.1", "<a@x.example>: Recipient address rejected: User unknown"),
        (552, "5.2.2", "The email account that you tried to reach is over quota"),
        (550, "5.2.1", "<a@x.example>: mailbox disabled"),
        (550, "", "No such user here"),
        (552, "5.2.2", "The recipient's inbox is out of storage space and inactive"),
        (552, "5.2.2", "Mailbox size limit exceeded"),
        (550, "5.1.1", "mailbox for a@x.example not here"),
        (550, "5.1.1", "<resend.as.needed@x.example>: not here"),
        (556, "5.1.10", "Recipient address has null MX"),
        (552, "5.2.3", "Message too large for this mailbox"),
    ],
)
def test_a_recipients_own_matter_is_theirs_behind_rcpt_too(
    phase: Phase, code: int, enhanced: str, text: str
) -> None:
    assert fingerprint(phase, Reply(code=code, enhanced=enhanced, text=text)) is None


@pytest.mark.parametrize("phase", [Phase.RCPT, Phase.DATA, Phase.DOT])
@pytest.mark.parametrize(
    "text",
    [
        "User unknown; check the address and resend as needed",
        "<send-as@x.example>: User unknown",
    ],
)
def test_what_only_looks_like_words_of_the_sender_is_a_recipients_own_matter(
    phase: Phase, text: str
) -> None:
    assert fingerprint(phase, Reply(code=550, enhanced="5.1.1", text=text)) is None
