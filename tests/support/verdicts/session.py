"""The rows before the first email: greeting, EHLO, STARTTLS, AUTH. All are the server's own."""

from __future__ import annotations

from functools import partial
from typing import Any

from outbox.domain.delivery.reply_table import Event
from outbox.domain.delivery.transaction import Verdict
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import drip, stall
from tests.support.servers.smtp.stateful import Says, hang_up
from tests.support.verdicts.case import AT, QUEUED, TLS, Case, TableRow, case

SHORT = {"OUTBOX_COMMAND_TIMEOUT": 1.0}
CREDENTIALS: dict[str, object] = {"MAIL_USERNAME": "shop", "MAIL_PASSWORD": "secret"}
AUTH: dict[str, Any] = {
    "config": CREDENTIALS | {"OUTBOX_CLEARTEXT_AUTH": True},
    "offers": ("AUTH PLAIN",),
}
WANTS_TLS = CREDENTIALS | {"MAIL_USE_TLS": True}
UNDER_TLS, OFFERS = TLS(config=WANTS_TLS), ("STARTTLS", "AUTH PLAIN")
STARTTLS: dict[str, Any] = {"tls": UNDER_TLS, "offers": OFFERS}

halted = partial(case, verdict=Verdict.HALT)
halted_for_long = partial(halted, alert=True, pause=300.0)
connect = partial(halted, TableRow.CONNECT, phase=AT.GREETING)
ehlo = partial(halted, TableRow.EHLO, phase=AT.EHLO)
starttls = partial(halted, TableRow.STARTTLS, phase=AT.STARTTLS, tls=UNDER_TLS, offers=OFFERS)
auth_4xx = partial(halted, TableRow.AUTH_4XX, phase=AT.AUTH)
auth_refused = partial(halted_for_long, TableRow.AUTH_REFUSED, phase=AT.AUTH)
auth_refused_once = partial(auth_refused, pause=5.0)  # it is tried once more before it waits long
closing = partial(halted, TableRow.CLOSING)
login_wanted = partial(halted_for_long, TableRow.LOGIN_WANTED)

CONNECTING = (
    connect("4xx", {"CONNECT": "450 4.3.2 busy"}),
    connect("5xx", {"CONNECT": "554 5.7.1 not you"}),
    connect(
        "closed",
        {"CONNECT": hang_up},
        event=Event.CLOSED,
        text="the server closed the connection",
    ),
    connect("silent", {"CONNECT": stall}, event=Event.TIMEOUT, text="no whole reply", config=SHORT),
    connect("slow drip", {"CONNECT": drip(b"2")}, event=Event.TIMEOUT, config=SHORT),
    connect(
        "garbage",
        {"CONNECT": "HTTP/1.1 400 Bad Request"},
        event=Event.GARBAGE,
        text="this is not an SMTP reply: HTTP/1.1",
    ),
    connect(
        "over-long line",
        {"CONNECT": "220 " + "x" * 5000},
        event=Event.GARBAGE,
        text="a reply line of more than",
    ),
    closing("greeting", {"CONNECT": "421 4.3.2 closing"}, phase=AT.GREETING),
    closing(
        "greeting that names a time",
        {"CONNECT": "421 4.7.0 try again in 10 minutes"},
        phase=AT.GREETING,
        pause=600.0,
    ),
    closing(
        "greeting that names a day",
        {"CONNECT": "421 4.7.0 try again in 24 hours"},
        phase=AT.GREETING,
        pause=3600.0,
    ),
    login_wanted("greeting", {"CONNECT": "530 5.7.0 who are you"}, phase=AT.GREETING),
)

HELLO = (
    ehlo("4xx", {"EHLO": "451 4.3.0 later"}),
    ehlo(
        "5xx and HELO 5xx",
        {"EHLO": "502 5.5.1 what", "HELO": "550 5.7.1 no"},
        reply="550 5.7.1 no",
    ),
    case(
        TableRow.EHLO,
        "5xx and HELO 2xx",
        {"EHLO": "502 5.5.1 what"},
        Verdict.SENT,
        AT.DOT,
        QUEUED,
    ),
    ehlo("closed", {"EHLO": hang_up}, event=Event.CLOSED),
    ehlo("garbage", {"EHLO": "ehlo yourself"}, event=Event.GARBAGE),
    closing("EHLO", {"EHLO": "421 4.3.2 closing"}, phase=AT.EHLO),
    login_wanted("EHLO", {"EHLO": "530 5.7.1 who are you"}, phase=AT.EHLO),
)


UNVERIFIED = {"misnamed": "IP address mismatch", "expired": "certificate has expired"}
"""What is wrong with a certificate, and how it is told."""


def no_handshake(dialogue: Dialogue) -> None:
    """Answer the client's first octets of TLS with words."""
    dialogue.receive()
    dialogue.sock.sendall(b"this is no handshake\r\n")
    hang_up(dialogue)


SECURING = (
    starttls(
        "missing",
        {"EHLO": "250-stateful.example\n250 AUTH PLAIN"},
        event=Event.LACKING,
        text="STARTTLS",
    ),
    starttls("454", {"STARTTLS": "454 4.7.0 not now"}),
    starttls("501", {"STARTTLS": "501 5.5.4 no"}),
    starttls(
        "closed in the handshake",
        {"STARTTLS": Says(reply="220 go on", then=hang_up)},
        event=Event.CLOSED,
    ),
    starttls(
        "words in the place of a handshake",
        {"STARTTLS": Says(reply="220 go on", then=no_handshake)},
        event=Event.CLOSED,
        text="SSL",
    ),
    starttls(
        "a reply injected in clear",
        {"STARTTLS": "220 go on\n250 AUTH PLAIN"},
        event=Event.GARBAGE,
        text="sent clear text",
    ),
    *(
        halted(
            TableRow.UNVERIFIED,
            name,
            {},
            alert=True,  # and tried again soon: other servers may answer to the name
            phase=AT.STARTTLS,
            offers=OFFERS,
            event=Event.UNVERIFIED,
            text=f"the server's certificate does not verify: {text}",
            tls=TLS(config=WANTS_TLS, certificate=name),
        )
        for name, text in UNVERIFIED.items()
    ),
    closing("STARTTLS", {"STARTTLS": "421 4.3.2 no"}, phase=AT.STARTTLS, **STARTTLS),
    closing("EHLO under TLS", {"EHLO 2": "421 4.3.2 no"}, phase=AT.EHLO, **STARTTLS),
)

LOGGING_IN = (
    auth_4xx("454", {"AUTH": "454 4.7.0 later"}, **AUTH),
    auth_4xx("closed", {"AUTH": hang_up}, event=Event.CLOSED, **AUTH),
    auth_refused_once("535", {"AUTH": "535 5.7.8 wrong"}, **AUTH),
    auth_refused("534", {"AUTH": "534 5.7.9 too weak"}, **AUTH),
    auth_refused_once("535 under TLS", {"AUTH": "535 5.7.8 wrong"}, **STARTTLS),
    *(
        auth_refused(
            name,
            {"EHLO": f"250-stateful.example\n250 {offer}"},
            event=Event.LACKING,
            text=text,
            **AUTH,
        )
        for name, offer, text in (
            ("not offered", "8BITMIME", "the server does not offer AUTH"),
            ("no mechanism that we know", "AUTH GSSAPI", "no AUTH mechanism we know"),
        )
    ),
    login_wanted("AUTH", {"AUTH": "530 5.7.0 no"}, phase=AT.AUTH, **AUTH),
    closing("AUTH", {"AUTH": "421 4.3.2 closing"}, phase=AT.AUTH, **AUTH),
)

SESSION: tuple[Case, ...] = (*CONNECTING, *HELLO, *SECURING, *LOGGING_IN)
