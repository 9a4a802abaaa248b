"""The rows of MAIL: what the server says of itself, of the sender, and of what an email needs."""

from __future__ import annotations

from email.message import EmailMessage
from functools import partial

from outbox.domain.delivery.reply_table import Event
from outbox.domain.delivery.transaction import Verdict
from tests.support.servers.smtp.scripted import stall
from tests.support.servers.smtp.stateful import hang_up
from tests.support.shop.shop import message
from tests.support.verdicts import rows
from tests.support.verdicts.case import AT, Case, TableRow, case
from tests.support.verdicts.session import SHORT

CLOSED = "the server closed the connection"
SES = "454 Throttling failure: Maximum sending rate exceeded."
TOO_MUCH = "450 4.7.1 Error: too much mail from 192.0.2.1"
TOO_MANY = "450 4.7.1 Error: too many recipients from 192.0.2.1"
MAILTRAP = "550 5.7.0 Requested action not taken: too many emails per second"
GMAIL_DAILY = "550 5.4.5 Daily user sending limit exceeded"
RATE_MSG = "450 4.7.1 <END-OF-MESSAGE>: End-of-data rejected: Number messages per hour exceeded"
WILDDUCK = "550 You reached a daily sending limit for your account. Limit expires in 5 hours"
STALWART = "451 4.4.5 Rate limit exceeded, try again later."
GODADDY = "550 5.1.1 <a@x.example> - 192.0.2.1 has sent to too many recipients this hour. IB607"
QUOTA = "Quota exceeded (number of mails in total)"
EXIM = "452 Space shortage, please try later"
CROWDED = "432 4.3.2 Concurrent connections limit exceeded. Visit https://aka.ms/concurrent_sending"
GMAIL = "450 4.2.1 The user you are trying to contact is receiving mail at a rate that is too high"


def international() -> EmailMessage:
    return message("gr\u00fc\u00dfe@x.example", subject="the case")


def eight_bit() -> EmailMessage:
    """It is signed: nothing may encode it."""
    mail = message("a@x.example", subject="the case")
    mail.set_content("Gr\u00fc\u00dfe", cte="8bit")
    mail["DKIM-Signature"] = "v=1; d=shop.example; h=from; bh=x; b=y"
    return mail


mail_refused = partial(case, TableRow.MAIL_REFUSED, phase=AT.MAIL)
mail_system = partial(case, TableRow.MAIL_SYSTEM, verdict=Verdict.SUSPECT, phase=AT.MAIL)
lacking = partial(
    case, TableRow.LACKING, verdict=Verdict.LACKING, phase=AT.MAIL, event=Event.LACKING
)

MAIL: tuple[Case, ...] = (
    mail_refused("4xx", {"MAIL": "450 4.1.8 later"}, Verdict.RETRY),
    mail_refused("5xx", {"MAIL": "550 5.1.8 no"}, Verdict.FAIL),
    mail_refused(
        "4xx at the last attempt",
        {"MAIL": "450 4.1.8 later"},
        Verdict.RETRY,
        status="failed",
        config={"OUTBOX_MAX_ATTEMPTS": 1},
    ),
    mail_refused(
        "4xx that names a time",
        {"MAIL": "451 4.4.5 try again in 300 seconds"},
        Verdict.RETRY,
        delay=315.0,
    ),
    mail_system("452", {"MAIL": "452 4.3.1 storage is full"}),
    mail_system("451", {"MAIL": "451 4.3.0 later"}),
    mail_system("452 without an enhanced code", {"MAIL": EXIM}),
    rows.throttled("SES at MAIL", {"MAIL": SES}, phase=AT.MAIL),
    rows.throttled("SES at the dot", {".": SES}, phase=AT.DOT),
    rows.too_fast("Gmail at RCPT", {"RCPT": GMAIL}, phase=AT.RCPT),
    rows.throttled("4xx at MAIL", {"MAIL": "451 4.4.5 too fast"}, phase=AT.MAIL),
    rows.throttled("Postfix at MAIL", {"MAIL": TOO_MUCH}, phase=AT.MAIL),
    rows.throttled("Postfix at RCPT", {"RCPT": TOO_MANY}, phase=AT.RCPT),
    rows.throttled(
        "5xx at MAIL", {"MAIL": "550 5.4.5 Daily sending quota exceeded"}, phase=AT.MAIL
    ),
    rows.throttled("4xx at DATA", {"DATA": "450 4.7.0 rate limit exceeded"}, phase=AT.DATA),
    rows.throttled("Mailtrap at DATA", {"DATA": MAILTRAP}, phase=AT.DATA),
    rows.throttled("Gmail at DATA", {"DATA": GMAIL_DAILY}, phase=AT.DATA),
    rows.throttled("4xx at the dot", {".": RATE_MSG}, phase=AT.DOT),
    rows.throttled("5xx at the dot", {".": GMAIL_DAILY}, phase=AT.DOT),
    rows.throttled("Exchange's quota", {".": "550 5.2.2 Submission quota exceeded"}, phase=AT.DOT),
    rows.throttled("a sender's quota", {"RCPT": "552 5.2.2 Sender quota exceeded"}, phase=AT.RCPT),
    rows.throttled("too many connections, at the dot", {".": CROWDED}, phase=AT.DOT),
    rows.throttled("a 4xx quota at RCPT", {"RCPT": f"450 4.7.1 {QUOTA}"}, phase=AT.RCPT),
    rows.throttled("a 5xx quota at the dot", {".": f"554 5.7.1 {QUOTA}"}, phase=AT.DOT),
    *rows.of_any_command("MAIL", AT.MAIL),
    rows.out_of_step("MAIL 354", {"MAIL": "354 go on"}, phase=AT.MAIL),
    rows.out_of_step(
        "MAIL garbage",
        {"MAIL": "what?"},
        phase=AT.MAIL,
        event=Event.GARBAGE,
        text="this is not an SMTP reply: what?",
    ),
    rows.out_of_step(
        "MAIL over-long line",
        {"MAIL": "250 " + "x" * 5000},
        phase=AT.MAIL,
        event=Event.GARBAGE,
        text="a reply line of more than",
    ),
    rows.lost_early(
        "MAIL closed", {"MAIL": hang_up}, phase=AT.MAIL, event=Event.CLOSED, text=CLOSED
    ),
    rows.lost_early(
        "MAIL silent", {"MAIL": stall}, phase=AT.MAIL, event=Event.TIMEOUT, config=SHORT
    ),
    case(
        TableRow.MALFORMED,
        "a line break in a recipient",
        {},
        Verdict.FAIL,
        AT.MAIL,
        event=Event.MALFORMED,
        text="must not contain white space",
        altered_to="a@x.example>\r\nRCPT TO:<b@x.example",
    ),
    lacking(
        "SMTPUTF8",
        {},
        text="does not offer SMTPUTF8",
        lacks=("SMTPUTF8",),
        mail=international,
    ),
    lacking(
        "8BITMIME",
        {},
        text="does not offer 8BITMIME",
        lacks=("8BITMIME",),
        mail=eight_bit,
    ),
    lacking(
        "SIZE",
        {},
        text="octets and the server takes 5000 (SIZE)",
        lacks=("SIZE",),
        offers=("SIZE 5000",),
        mail=lambda: message("a@x.example", text="x" * 60 * 100),
    ),
)
