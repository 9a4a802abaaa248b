"""The reason for which a server is halted: a breaker's row has it in words, for people."""

from __future__ import annotations

from .reply_words import CONNECTIONS, ends_after_errors, is_throttle, words_of
from .transaction import Phase, Reply

UNVERIFIED = "the server's certificate does not verify"
"""The words with which the text of such a halt's reply begins."""

CERTIFICATE_REMEDY = (
    "name its authority's certificate in OUTBOX_TLS_CA_FILE, or give MAIL_SERVER, or the entry in"
    " OUTBOX_SERVERS, the name that stands in the certificate, and restart the workers: they try it"
    " at once; an expired certificate must be renewed at the server; no email is lost or charged"
)
"""What a person can do about it."""

TOO_LONG = "the transaction took longer than OUTBOX_TRANSACTION_TIMEOUT"
"""The words where an email's whole transaction took too long."""

_SINCE = "; since then "


def halt_reason(phase: Phase, reply: Reply) -> str:
    """Return a reply in words: where it came, and what the server said."""
    return f"{phase}: {reply.code} {reply.text}"


def told_since(alert: str, newest: str, *, most: int) -> str:
    """Return the reason of an alert that stands, and behind it what the server was halted for last.

    Who has mended what the alert was about must see that another outage is left. `most` is the
    number of characters.
    """
    behind = (_SINCE + newest)[: most // 2]
    return alert.partition(_SINCE)[0][: most - len(behind)] + behind


def may_pass(reason: str) -> bool:
    """Return whether the server refused a user name or password that it may take the next time."""
    return reason.startswith(f"{Phase.AUTH}: 535")


def refuses_login(reason: str) -> bool:
    """Return whether the server refused the user name or the password."""
    return reason.startswith(Phase.AUTH)


def lacks_login(reason: str) -> bool:
    """Return whether no login could be tried: the server offers none, or only in clear."""
    words = reason.removeprefix(f"{Phase.AUTH}: 0 ")
    return words != reason and "not ASCII" not in words


def lacks_starttls(reason: str) -> bool:
    """Return whether the server does not offer STARTTLS: the words are smtplib's."""
    return reason.startswith(f"{Phase.STARTTLS}: 0 STARTTLS extension not supported")


def begins_in_clear(reason: str) -> bool:
    """Return whether a server that was to speak TLS at once does not: OpenSSL says so."""
    return reason.startswith(f"{Phase.CONNECT}: 0 ") and "WRONG_VERSION_NUMBER" in reason


def is_unverified(reason: str) -> bool:
    """Return whether the server's certificate does not verify."""
    return reason.partition(": ")[2].startswith(f"0 {UNVERIFIED}")


def ask_for_the_same(alert: str, other: str) -> bool:
    """Return whether a person who was told of the one alert knows what to do about the other.

    A certificate may hide a wrong password: who has mended the one must learn of the other.
    """
    return is_unverified(alert) == is_unverified(other)


def refuses_connections(reason: str) -> bool:
    """Return whether the server refused a session that it might take with fewer of them."""
    return reason.startswith(f"{Phase.GREETING}: 4") or bool(CONNECTIONS.search(words_of(reason)))


def leaves_doubt(reason: str) -> bool:
    """Return whether a content left, and no reply tells what became of it: its email is in doubt.

    A refusal by 4xx or 5xx is such a reply.
    """
    phase, _, words = reason.partition(": ")
    return phase == Phase.DOT and not words.startswith(("4", "5"))


def takes_too_long(reason: str) -> bool:
    """Return whether an email took too long as a whole. The first that did so was charged."""
    return reason.partition(": ")[2].startswith(f"0 {TOO_LONG}")


def throttles(reason: str) -> bool:
    """Return whether the server wants fewer emails in a time."""
    return is_throttle(reason)


def ends_sessions(reason: str) -> bool:
    """Return whether the server ended the session after errors in it: that is no throttle."""
    return ends_after_errors(reason)
