"""A limit on how much is sent is a suspicion; what is said of one email or recipient is none."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.refusal_fingerprint import fingerprint
from outbox.domain.delivery.reply_table import judge
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.smtp.reply_reader import parse_reply


def reply(line: str) -> Reply:
    code, _, text = line.partition(" ")
    return parse_reply(int(code), text.encode())


@pytest.mark.parametrize("phase", [Phase.MAIL, Phase.DATA, Phase.DOT])
@pytest.mark.parametrize(
    "text",
    [
        "5.7.0 Requested action not taken: too many emails per second",
        "5.4.5 Daily user sending quota exceeded",
        "5.4.5 Daily user sending limit exceeded. https://support.google.com/a/answer/166852",
        "5.4.5 Daily SMTP relay limit exceeded for user",
        "5.7.1 Email quota exceeded.",
        "5.7.1 <END-OF-MESSAGE>: End-of-data rejected: Number messages per hour exceeded",
        "5.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded",
        "5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException; Failed to process",
        "5.1.90 Your message can't be sent because you've reached your daily limit for recipients",
        "You have exceeded your messaging limits",
        "Domain x.example has exceeded the max emails per hour (101/100) allowed",
        "Domain x.example has exceeded the max defers and failures per hour (5/5 (100%)) allowed",
        "Mail send limit exceeded",
        "Too many requests",
    ],
)
def test_a_limit_on_how_much_is_sent_is_no_refusal_of_the_email(phase: Phase, text: str) -> None:
    verdicts = {judge(phase, reply(f"{code} {text}")).verdict for code in (450, 550)}
    assert verdicts == {Verdict.SUSPECT}


@pytest.mark.parametrize("phase", [Phase.DATA, Phase.DOT])
@pytest.mark.parametrize(
    "text",
    [
        "5.4.6 Too many hops",
        "5.4.6 Hop count exceeded - possible mail loop",
        "5.3.4 message size limit exceeded",
        "5.3.4 message exceeds the maximum outgoing message size limit",
        "5.3.4 you cannot send messages larger than the limit of 10 MB",
        "5.2.2 The email account that you tried to reach is over quota",
        "5.2.2 Mailbox quota exceeded",
        "5.2.2 Quota exceeded (mailbox for user is full)",
        "5.2.2 too many messages in the mailbox",
        "Too many messages in the user's mailbox",
        "5.7.1 <throttle@x.example> is listed",
        "5.7.1 Blocked phrase: earn $5000 per day",
        "Message size exceeds sender size limit",
        "5.5.3 Too many recipients",
        "Transaction failed: Recipient count exceeds 50.",
        "5.6.0 header limit exceeded",
        "5.7.1 too many links",
        "5.7.1 spam",
    ],
)
def test_what_is_wrong_with_one_email_is_no_limit_on_how_much_is_sent(
    phase: Phase, text: str
) -> None:
    assert judge(phase, reply(f"450 {text}")).verdict is Verdict.RETRY
    assert judge(phase, reply(f"550 {text}")).verdict is Verdict.FAIL


@pytest.mark.parametrize("phase", [Phase.DATA, Phase.DOT])
@pytest.mark.parametrize(
    "status",
    [
        "2.2 Mailbox full: message quota exceeded",
        "2.2 User is over quota: message limit reached for this mailbox",
        "2.2 Too many messages in the user's mailbox",
        "1.1 <slowdown@example.com>: user unknown",
        "1.1 Too many messages to this address",
        "2.1 The user you are trying to contact has too many messages",
        "3.4 Message size exceeds sender size limit",
        "3.4 Message exceeds the sending limit",
    ],
)
def test_a_code_of_a_recipient_or_a_size_is_no_limit_whatever_its_words(
    phase: Phase, status: str
) -> None:
    assert judge(phase, reply(f"452 4.{status}")).verdict is Verdict.RETRY
    assert judge(phase, reply(f"552 5.{status}")).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "text",
    [
        "x.7.1 <a@x.example>: Recipient address rejected: Policy Rejection- Quota Exceeded.",
        "x.7.1 <a@x.example>: Recipient rejected: Quota exceeded (number of mails in total)",
        "x.7.1 <a@x.example>: Recipient address rejected: rate limit exceeded",
        "x.7.1 Error: too many recipients from 192.0.2.1",
        "x.1.1 <a@x.example> - 192.0.2.1 has sent to too many recipients this hour. IB607",
        "Requested mail action not taken: mailbox unavailable\nMail send limit exceeded.",
        "You reached a daily sending limit for your account. Limit expires in 5 hours",
        "Too many recipients received this hour",
    ],
)
def test_a_limit_is_known_at_rcpt_whatever_the_code(text: str) -> None:
    lines = (f"{digit}50 {text.replace('x.', f'{digit}.', 1)}" for digit in "45")
    assert {judge(Phase.RCPT, reply(line)).verdict for line in lines} == {Verdict.SUSPECT}


@pytest.mark.parametrize(
    "line",
    [
        "452 4.5.3 Your message has too many recipients: our sending limits",
        "552 Too many per hour",
        "450 4.7.1 Error: too many recipients from 192.0.2.1",
        "550 5.1.1 <a@x.example> - 192.0.2.1 has sent to too many recipients this hour. IB607",
    ],
)
def test_what_is_said_behind_an_accepted_recipient_is_about_their_number(line: str) -> None:
    assert judge(Phase.RCPT, reply(line), accepted=True).verdict is Verdict.NEXT


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("552 5.2.2 Quota exceeded", Verdict.FAIL),
        ("552 Quota exceeded", Verdict.FAIL),
        ("452 4.2.2 Quota exceeded", Verdict.RETRY),
        ("552 5.7.1 Quota exceeded", Verdict.SUSPECT),
        ("552 5.7.1 Over quota: quota exceeded", Verdict.FAIL),
        ("550 5.7.1 The user's mailbox: quota exceeded", Verdict.FAIL),
    ],
)
@pytest.mark.parametrize("phase", [Phase.RCPT, Phase.DATA, Phase.DOT])
def test_a_policys_quota_is_told_from_a_mailboxs(phase: Phase, line: str, verdict: Verdict) -> None:
    assert judge(phase, reply(line)).verdict is verdict


@pytest.mark.parametrize("phase", [Phase.RCPT, Phase.DATA, Phase.DOT])
@pytest.mark.parametrize(
    "words",
    [
        "Submission quota exceeded",
        "Sender quota exceeded",
        "Sending quota exceeded",
        "Outgoing mail quota exceeded",
        "Quota exceeded for sender",
        "The sender has exceeded the quota",
    ],
)
def test_a_quota_on_what_is_sent_is_told_from_a_mailboxs(words: str, phase: Phase) -> None:
    """Such as Exchange's: the code is that of a full mailbox."""
    for line in (f"550 5.2.2 {words}", f"552 5.2.2 {words}"):
        assert judge(phase, reply(line)).verdict is Verdict.SUSPECT
    assert fingerprint(phase, reply(f"452 4.2.2 {words}")) is not None


@pytest.mark.parametrize("phase", [Phase.RCPT, Phase.DATA, Phase.DOT])
@pytest.mark.parametrize(
    "line",
    [
        "552 5.2.2 Quota exceeded (mailbox for user is full)",
        "552 5.2.2 Recipient over quota; the sender was told",
        "552 5.2.2 Mailbox of the recipient has exceeded its quota",
    ],
)
def test_a_mailboxs_quota_is_none_on_what_is_sent(line: str, phase: Phase) -> None:
    assert judge(phase, reply(line)).verdict is Verdict.FAIL
    assert fingerprint(phase, reply(line)) is None


@pytest.mark.parametrize("phase", [Phase.DATA, Phase.DOT])
def test_who_receives_too_quickly_is_no_throttle_of_the_server(phase: Phase) -> None:
    line = "550 5.2.1 The user you are trying to contact is receiving mail too quickly"
    assert judge(phase, reply(line)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "line",
    [
        "552 5.3.4 Message size exceeds sender size limit",
        "552 5.3.4 Message exceeds the sending limit",
        "552 Message size exceeds sender size limit",
        "550 5.1.8 <slowdown@shop.example>: Sender address rejected",
    ],
)
def test_an_emails_size_or_sender_is_no_throttle_at_mail(line: str) -> None:
    assert judge(Phase.MAIL, reply(line)).verdict is Verdict.FAIL
