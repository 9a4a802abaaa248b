"""The rows before the first email: greeting, EHLO, STARTTLS, AUTH. All are the server's own."""

from __future__ import annotations

from typing import Any

from outbox.domain.delivery.reply_table import Event
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import drip, stall
from tests.support.servers.smtp.stateful import Says, hang_up
from tests.support.verdicts.case import AT, HALT, SENT, TLS, Case, TableRow, case

SHORT = {"OUTBOX_COMMAND_TIMEOUT": 1.0}
LONG_PAUSE: dict[str, Any] = {"alert": True, "pause": 300.0}
CREDENTIALS: dict[str, object] = {"MAIL_USERNAME": "shop", "MAIL_PASSWORD": "secret"}
LOGIN = CREDENTIALS | {"OUTBOX_CLEARTEXT_AUTH": True}
AUTH: dict[str, Any] = {"config": LOGIN, "offers": ("AUTH PLAIN",)}
WANTS_TLS = CREDENTIALS | {"MAIL_USE_TLS": True}
STARTTLS: dict[str, Any] = {"tls": TLS(config=WANTS_TLS), "offers": ("STARTTLS", "AUTH PLAIN")}

CONNECTING = (
    case(TableRow.CONNECT, "4xx", {"CONNECT": "450 4.3.2 busy"}, HALT, AT.GREETING),
    case(TableRow.CONNECT, "5xx", {"CONNECT": "554 5.7.1 not you"}, HALT, AT.GREETING),
    case(
        TableRow.CONNECT,
        "closed",
        {"CONNECT": hang_up},
        HALT,
        AT.GREETING,
        event=Event.CLOSED,
        text="the server closed the connection",
    ),
    case(
        TableRow.CONNECT,
        "silent",
        {"CONNECT": stall},
        HALT,
        AT.GREETING,
        event=Event.TIMEOUT,
        text="no whole reply",
        config=SHORT,
    ),
    case(
        TableRow.CONNECT,
        "slow drip",
        {"CONNECT": drip(b"2")},
        HALT,
        AT.GREETING,
        event=Event.TIMEOUT,
        config=SHORT,
    ),
    case(
        TableRow.CONNECT,
        "garbage",
        {"CONNECT": "HTTP/1.1 400 Bad Request"},
        HALT,
        AT.GREETING,
        event=Event.GARBAGE,
        text="this is not an SMTP reply: HTTP/1.1",
    ),
    case(
        TableRow.CONNECT,
        "over-long line",
        {"CONNECT": "220 " + "x" * 5000},
        HALT,
        AT.GREETING,
        event=Event.GARBAGE,
        text="a reply line of more than",
    ),
    case(TableRow.CLOSING, "greeting", {"CONNECT": "421 4.3.2 closing"}, HALT, AT.GREETING),
    case(
        TableRow.CLOSING,
        "greeting that names a time",
        {"CONNECT": "421 4.7.0 try again in 10 minutes"},
        HALT,
        AT.GREETING,
        pause=600.0,
    ),
    case(
        TableRow.LOGIN_WANTED,
        "greeting",
        {"CONNECT": "530 5.7.0 who are you"},
        HALT,
        AT.GREETING,
        **LONG_PAUSE,
    ),
)

HELLO = (
    case(TableRow.EHLO, "4xx", {"EHLO": "451 4.3.0 later"}, HALT, AT.EHLO),
    case(
        TableRow.EHLO,
        "5xx and HELO 5xx",
        {"EHLO": "502 5.5.1 what", "HELO": "550 5.7.1 no"},
        HALT,
        AT.EHLO,
        "550 5.7.1 no",
    ),
    case(
        TableRow.EHLO,
        "5xx and HELO 2xx",
        {"EHLO": "502 5.5.1 what"},
        SENT,
        AT.DOT,
        "250 2.0.0 queued",
    ),
    case(TableRow.EHLO, "closed", {"EHLO": hang_up}, HALT, AT.EHLO, event=Event.CLOSED),
    case(TableRow.EHLO, "garbage", {"EHLO": "ehlo yourself"}, HALT, AT.EHLO, event=Event.GARBAGE),
    case(TableRow.CLOSING, "EHLO", {"EHLO": "421 4.3.2 closing"}, HALT, AT.EHLO),
    case(
        TableRow.LOGIN_WANTED,
        "EHLO",
        {"EHLO": "530 5.7.1 who are you"},
        HALT,
        AT.EHLO,
        **LONG_PAUSE,
    ),
)


def no_handshake(dialogue: Dialogue) -> None:
    """Answer the client's first octets of TLS with words."""
    dialogue.receive()
    dialogue.sock.sendall(b"this is no handshake\r\n")
    hang_up(dialogue)


SECURING = (
    case(
        TableRow.STARTTLS,
        "missing",
        {"EHLO": "250-stateful.example\n250 AUTH PLAIN"},
        HALT,
        AT.STARTTLS,
        event=Event.LACKING,
        text="STARTTLS",
        **STARTTLS,
    ),
    case(
        TableRow.STARTTLS, "454", {"STARTTLS": "454 4.7.0 not now"}, HALT, AT.STARTTLS, **STARTTLS
    ),
    case(TableRow.STARTTLS, "501", {"STARTTLS": "501 5.5.4 no"}, HALT, AT.STARTTLS, **STARTTLS),
    case(
        TableRow.STARTTLS,
        "closed in the handshake",
        {"STARTTLS": Says(reply="220 go on", then=hang_up)},
        HALT,
        AT.STARTTLS,
        event=Event.CLOSED,
        **STARTTLS,
    ),
    case(
        TableRow.STARTTLS,
        "words in the place of a handshake",
        {"STARTTLS": Says(reply="220 go on", then=no_handshake)},
        HALT,
        AT.STARTTLS,
        event=Event.CLOSED,
        text="SSL",
        **STARTTLS,
    ),
    case(
        TableRow.STARTTLS,
        "a reply injected in clear",
        {"STARTTLS": "220 go on\n250 AUTH PLAIN"},
        HALT,
        AT.STARTTLS,
        event=Event.GARBAGE,
        text="sent clear text",
        **STARTTLS,
    ),
    case(
        TableRow.STARTTLS,
        "a certificate of another name",
        {},
        HALT,
        AT.STARTTLS,
        event=Event.CLOSED,
        text="CERTIFICATE_VERIFY_FAILED",
        tls=TLS(config=WANTS_TLS, certificate="misnamed"),
        offers=("STARTTLS", "AUTH PLAIN"),
    ),
    case(TableRow.CLOSING, "STARTTLS", {"STARTTLS": "421 4.3.2 no"}, HALT, AT.STARTTLS, **STARTTLS),
    case(TableRow.CLOSING, "EHLO under TLS", {"EHLO 2": "421 4.3.2 no"}, HALT, AT.EHLO, **STARTTLS),
)

LOGGING_IN = (
    case(TableRow.AUTH_4XX, "454", {"AUTH": "454 4.7.0 later"}, HALT, AT.AUTH, **AUTH),
    case(TableRow.AUTH_4XX, "closed", {"AUTH": hang_up}, HALT, AT.AUTH, event=Event.CLOSED, **AUTH),
    case(
        TableRow.AUTH_REFUSED,
        "535",
        {"AUTH": "535 5.7.8 wrong"},
        HALT,
        AT.AUTH,
        **LONG_PAUSE,
        **AUTH,
    ),
    case(
        TableRow.AUTH_REFUSED,
        "534",
        {"AUTH": "534 5.7.9 too weak"},
        HALT,
        AT.AUTH,
        **LONG_PAUSE,
        **AUTH,
    ),
    case(
        TableRow.AUTH_REFUSED,
        "535 under TLS",
        {"AUTH": "535 5.7.8 wrong"},
        HALT,
        AT.AUTH,
        **LONG_PAUSE,
        **STARTTLS,
    ),
    case(
        TableRow.AUTH_REFUSED,
        "not offered",
        {"EHLO": "250-stateful.example\n250 8BITMIME"},
        HALT,
        AT.AUTH,
        event=Event.LACKING,
        text="the server does not offer AUTH",
        **LONG_PAUSE,
        **AUTH,
    ),
    case(
        TableRow.AUTH_REFUSED,
        "no mechanism that we know",
        {"EHLO": "250-stateful.example\n250 AUTH GSSAPI"},
        HALT,
        AT.AUTH,
        event=Event.LACKING,
        text="no AUTH mechanism we know",
        **LONG_PAUSE,
        **AUTH,
    ),
    case(
        TableRow.LOGIN_WANTED, "AUTH", {"AUTH": "530 5.7.0 no"}, HALT, AT.AUTH, **LONG_PAUSE, **AUTH
    ),
    case(TableRow.CLOSING, "AUTH", {"AUTH": "421 4.3.2 closing"}, HALT, AT.AUTH, **AUTH),
)

SESSION: tuple[Case, ...] = (*CONNECTING, *HELLO, *SECURING, *LOGGING_IN)
