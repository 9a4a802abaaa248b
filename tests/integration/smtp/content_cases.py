"""The table of replies as cases, from DATA on: what a server does, and what comes of it."""

from __future__ import annotations

from tests.integration.smtp.reply_cases import (
    AT,
    FAIL,
    RETRY,
    SENT,
    SUSPECT,
    UNKNOWN,
    UNSENT,
    at_dot,
    at_rcpt,
    row,
)
from tests.support.servers.smtp.scripted import (
    AT_DATA,
    DATA,
    RSET,
    close,
    content,
    expect,
    reset,
    serve,
    stall,
)

CONTENT_CASES = (
    row(
        "DATA 4xx",
        (*AT_DATA, expect("DATA", "451 later"), RSET, serve),
        RETRY,
        AT.DATA,
    ),
    row(
        "DATA 5xx keeps earlier refusals",
        (*at_rcpt("450 later", "250 ok"), expect("DATA", "554 no"), RSET, serve),
        FAIL,
        AT.DATA,
        RETRY,
        FAIL,
    ),
    row(
        "DATA 250 is out of place",
        (*AT_DATA, expect("DATA", "250 ok")),
        RETRY,
        AT.DATA,
        renewed=True,
    ),
    row("DATA closed", (*AT_DATA, close), UNSENT, AT.DATA, renewed=True),
    row(
        "DATA answered twice in advance",
        (*AT_DATA, expect("DATA", "354 go\n250 queued")),
        RETRY,
        AT.DATA,
        renewed=True,
    ),
    # -- after the final dot
    row("dot 250", at_dot(content("250 queued"), serve), SENT, AT.DOT),
    row("dot 251", at_dot(content("251 queued elsewhere"), serve), SENT, AT.DOT),
    row("dot 299", at_dot(content("299 sure"), serve), SENT, AT.DOT),
    row("dot 4xx", at_dot(content("451 later"), serve), RETRY, AT.DOT),
    row("dot 5xx", at_dot(content("554 spam"), serve), FAIL, AT.DOT),
    row("dot 421", at_dot(content("421 bye")), SUSPECT, AT.DOT, renewed=True),
    row("dot closed", at_dot(content(None), close), UNKNOWN, AT.DOT, renewed=True),
    row("dot reset", at_dot(content(None), reset), UNKNOWN, AT.DOT, renewed=True),
    row("dot silent", at_dot(content(None), stall), UNKNOWN, AT.DOT, renewed=True),
    row("dot garbage", at_dot(content("Thanks!")), UNKNOWN, AT.DOT, renewed=True),
    row("dot 354", at_dot(content("354 more")), UNKNOWN, AT.DOT, renewed=True),
    row(
        "dot over-long line",
        at_dot(content("250 " + "x" * 5000)),
        UNKNOWN,
        AT.DOT,
        renewed=True,
    ),
    row(
        "dot two codes in one reply",
        at_dot(content("250-queued\n554 or not")),
        UNKNOWN,
        AT.DOT,
        renewed=True,
    ),
    row(
        "dot closed keeps earlier refusals",
        (*at_rcpt("550 no", "250 ok"), DATA, content(None), close),
        UNKNOWN,
        AT.DOT,
        FAIL,
        UNKNOWN,
        renewed=True,
    ),
    row("dot 250 and more", at_dot(content("250 ok\n250 again")), SENT, AT.DOT, renewed=True),
)
