"""A full mailbox is its recipient's own matter, in whatever words; a full disk is the server's."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.refusal_fingerprint import fingerprint
from outbox.domain.delivery.reply_table import judge
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.smtp.reply_reader import parse_reply

PHASES = [Phase.RCPT, Phase.DATA, Phase.DOT]

MAILBOXES = """
452 Mailbox quota exceeded
452 4.2.2 Mailbox quota exceeded
452 4.3.1 Mailbox full
452 user over quota
450 mailbox full
552 quota
452 Quota exceeded
452 4.2.2 <a@x.example> Quota exceeded (mailbox for user is full)
554 5.2.2 <a@x.example>: Recipient address rejected: Quota exceeded (mailbox for user is full)
554 5.7.1 <a@x.example>: Recipient address rejected: Mailbox is full
552 5.2.2 <a@x.example>: Recipient address rejected: Mailbox is full
452 4.2.2 <a@x.example>: Recipient address rejected: Error: BUZON LLENO. MAILBOX IS FULL.
552 5.1.1 Boite du destinataire pleine. Recipient overquota. OFR_417 [417]
552 Mailbox for a@x.example is full / Blocks limit exceeded / Inode limit exceeded
452 The recipient's inbox is out of storage space. Please direct the recipient to clear it
452 4.2.2 The email account that you tried to reach is over quota. Please direct the recipient
552 5.2.2 The recipient's inbox is out of storage space and inactive.
552 1 Requested mail action aborted, mailbox over quota
552 Requested mail action aborted: exceeded storage allocation
552 Requested mail action aborted: exceeded storage allocation / The mailbox is full.
422 Recipient mailbox has exceeded its storage limit.
550 5.2.2 STOREDRV.Deliver; recipient mailbox is full
552 5.2.2 Over quota
452 Over quota
552 a@x.example has a full mailbox
552 <a@x.example>... Mail quota exceeded
552 recipient storage full, try again later
552 Requested mailbox exceeds quota.
551 the destination mailbox <a@x.example> is full
452 Mailbox size limit exceeded
552 Not enough storage space in the recipient's mailbox
550 5.7.1 user's mailbox is over its quota
550 user has exceeded quota, bouncing mail
550 This account is exceeding their quota
550 The recipient reached disk quota
552 5.0.0 User quota exceeded
552 sorry, recipient mailbox is overquota (#5.2.2)
552 User has too many messages on the server
450 user is over the quota. Please try again later.
552 The message would be over the allowed quota
552 Mailfolder is full
552 Maildir over quota
552 <a@x.example>: Inbox full
552 Message exceeds the recipient's quota
552 Account(s) <a@x.example> does not have enough space
552 Account(s) a does not have enough space
554 Recipient has exceeded mailbox size limit
550 Mailbox space not enough https://service.mail.example/cgi-bin/help?id=20022
452 4.3.1 Recipient mailbox storage is exhausted
452 4.3.1 Insufficient mailbox storage
552 Postfach des Empfaengers ist voll
452 Das Postfach des Empfängers ist voll
452 La boîte aux lettres du destinataire est pleine
552 Boite du destinataire pleine
552 Casella piena
452 La casilla de correo esta llena
452 Buzón lleno
552 Caixa postal cheia
452 Skrzynka odbiorcy jest przepełniona
552 Postvak is vol
552 Почтовый ящик переполнен
552 收件人邮箱空间不足
452 メールボックスの容量を超えています
"""
"""Postfix, Exim and cPanel, Dovecot, Cyrus, Zimbra, qmail, Gmail, Yahoo, Outlook, GMX, AOL, and so
on: what Sisimai and other readers of bounces have seen, too."""

SERVERS = """
452 4.3.1 Insufficient system storage
452 Insufficient system storage
452 Requested action not taken: insufficient system storage
452 4.3.1 Insufficient system resources
452 4.3.1 Mail system full
452 4.3.1 Out of disk space for the mailboxes
452 4.4.5 Insufficient disk space; try again later
452 Space shortage, please try later
452 Disk full
452 4.7.0 Over quota: message limit exceeded
450 Quota exceeded
450 Your mailbox is full, so you cannot send
450 Ihr Postfach ist voll
450 Votre boite est pleine
452 4.3.1 Disk space not enough
552 The system does not have enough space
552 5.2.2 Sender quota exceeded
550 5.7.1 Your mailbox is over quota
552 Your quota is exceeded
550 Sender's mailbox is full
550 5.7.1 Rejected: read the full policy on mailboxes
552 5.2.2 La tua casella di posta è piena
552 Das Postfach des Absenders ist voll
552 Ihr E-Mail-Postfach ist voll
552 Su buzón está lleno
552 Sua caixa postal está cheia
552 Ваш почтовый ящик переполнен
552 您的邮箱空间不足
552 La boite de l'expediteur est pleine
552 Your inbox is full, sending is disabled
552 Your mail box is over quota
552 Your storage quota has been exceeded
552 5.2.2 Sender mailbox full
552 The sender's inbox is full
550 Mailbox full: sending disabled
550 Sender account disabled
550 5.1.1 Sender not found in directory
550 5.2.1 The sending account has been disabled
550 Account not found, please verify your API key
554 Account inactive: subscription has expired
550 5.7.1 No space for your host on this relay. Mailboxes are not here
"""
"""What the server says of itself, or of whom we send by."""


def lines(table: str) -> list[str]:
    return table.strip().splitlines()


def reply(line: str) -> Reply:
    return parse_reply(int(line[:3]), line[4:].replace(" / ", "\n").encode())


@pytest.mark.parametrize("line", lines(MAILBOXES))
def test_a_full_mailbox_is_one_recipients_matter(line: str) -> None:
    """Any number of them in a row leaves the server in use."""
    wanted = Verdict.RETRY if line.startswith("4") else Verdict.FAIL
    assert judge(Phase.RCPT, reply(line)).verdict is wanted
    assert fingerprint(Phase.RCPT, reply(line)) is None


@pytest.mark.parametrize("line", lines(MAILBOXES))
@pytest.mark.parametrize("phase", [Phase.DATA, Phase.DOT])
def test_a_full_mailbox_is_no_limit_on_what_is_sent(phase: Phase, line: str) -> None:
    wanted = Verdict.RETRY if line.startswith("4") else Verdict.FAIL
    assert judge(phase, reply(line)).verdict is wanted
    assert fingerprint(phase, reply(line)) is None


@pytest.mark.parametrize("line", lines(SERVERS))
@pytest.mark.parametrize("phase", PHASES)
def test_what_a_server_says_of_itself_or_of_us_is_said_to_every_email(
    phase: Phase, line: str
) -> None:
    assert fingerprint(phase, reply(line)) is not None


@pytest.mark.parametrize("line", lines(MAILBOXES))
def test_at_mail_no_recipient_is_known(line: str) -> None:
    assert fingerprint(Phase.MAIL, reply(line)) is not None
