"""Refusals that belong to the SMTP session, and not to the email: a new session cures them. Pure.

Servers limit how much goes over one session, and many refuse all that is more without ending it
(Stalwart: "452 4.4.5 Maximum number of messages per session exceeded."). Others say it in words of
their own, or say nothing of a session: Postfix refuses each MAIL of a session whose filter has been
restarted, with "451 4.7.1 Service unavailable - try again later".
"""

from __future__ import annotations

import re

from .refusal_fingerprint import refusal_of
from .reply_words import words_of
from .transaction import Phase, Reply, Transaction, Verdict

_LIMIT = re.compile(r"too many|limit|\bmax|exceed|reached|no more|quota|\bcount\b", re.IGNORECASE)
_OF_SESSION = re.compile(
    r"\b(per|in|on|for|during|within|over|via|of)"
    r"( (this|the|same|current|an?|one|each|single|smtp))* (session|connection)\b"
    r"|\b(session|connection)('s)? (message|e-?mail|mail|transaction|recipient)s? (limit|count)",
    re.IGNORECASE,
)
_NEW_SESSION = re.compile(
    r"\b(open|use|using|start|try|establish|create|begin|make|needs?|requires?) (an? )?"
    r"(new|another|fresh) (smtp )?(session|connection)\b"
    r"|\bplease (disconnect and )?reconnect\b|\breconnect (and|to) (re)?(try|send)",
    re.IGNORECASE,
)
_TOO_MANY_EMAILS = re.compile(r"too many (messages|e-?mails|mails|transactions)", re.IGNORECASE)


def is_of_session(phase: Phase, reply: Reply) -> bool:
    """Return whether a server says of a refusal that it holds for this session only.

    OpenSMTPD does not name the session, but says so at MAIL, with a code that at MAIL can mean
    nothing else: "452 4.5.3 Too many recipients: Too many messages sent".
    """
    if reply.code < 400:
        return False
    text = words_of(reply.text)
    if _NEW_SESSION.search(text):
        return True
    if phase is Phase.MAIL and reply.code == 452 and _TOO_MANY_EMAILS.search(text):
        return True
    return _OF_SESSION.search(text) is not None and _LIMIT.search(text) is not None


def refusal_in_a_row(result: Transaction) -> str | None:
    """Return what a refusal has in common with others that may be the session's; None: it is none.

    The refusal of one recipient is no such one. At MAIL no recipient is known, so that a server
    does not greylist there: its words stand for themselves.
    """
    if result.verdict not in (Verdict.RETRY, Verdict.FAIL):
        return None
    if (refusal := refusal_of(result)) is not None or result.phase is not Phase.MAIL:
        return refusal
    reply = result.reply
    return f"{reply.code} {reply.enhanced} {reply.text}" if reply.code >= 400 else None
