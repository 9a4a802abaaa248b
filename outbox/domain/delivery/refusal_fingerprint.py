"""What refusals that are alike have in common, and which are about the recipient alone. Pure."""

from __future__ import annotations

import re

from .reply_words import (
    CLIENTS,
    FULL_ABROAD,
    FULL_MAILBOX,
    HOSTS,
    QUOTA,
    RECIPIENTS,
    SENDERS,
    SUPPRESSED,
    is_greylisting,
    without_addresses,
    without_names,
    words_of,
)
from .transaction import Phase, RecipientResult, Reply, Transaction, Verdict

REFUSAL_LENGTH = 255

_CONTENTS = "the last contents were all refused alike, and probes try others: "

_REFUSED = frozenset({Verdict.RETRY, Verdict.FAIL})

_MASKS = (
    # Numbers, IP addresses, and the ids of queues, hosts and reports: all have a digit.
    (re.compile(r"[\w.:/=?&%+~-]*\d[\w.:/=?&%+~-]*"), "#"),
    (re.compile(r"\b(?=\w*[a-z][A-Z])\w{10,}\b"), "#"),  # ids in mixed case without a digit
)
_OWN_STATUS = re.compile(r"[45]\.(1\.([0-6]|9|10)|2\.\d+)")
"""RFC 3463 §3.2 and §3.3: the recipient's address or mailbox is at fault (but x.1.7 and x.1.8 are
about the sender). At MAIL the same codes are about the sender."""
_OWN_BEHIND_RCPT = re.compile(r"[45]\.(1\.([1-6]|10)|2\.[1-4])")
"""Those of them that no server says of an email as a whole. Exchange says x.2.0 and 5.2.252 so."""
_ALWAYS_OWN = (FULL_MAILBOX, FULL_ABROAD, SUPPRESSED)
"""Words that are about the recipient, whatever the code: servers say so with those of a policy."""
_EXCHANGES_UNKNOWN = re.compile(r"(all )?recipient address(es)? rejected ?: access denied", re.I)
"""So Exchange Online says with 5.4.1 that it knows no such mailbox; else x.4.1 is about a route."""
_SAYS_NOTHING = re.compile(r"([45]\.0\.0)?")
"""RFC 3463 §3.1: x.0.0 is a status that is not defined. Then the words tell."""
_OF_STORAGE = (452, 552)
"""RFC 5321 §4.2.3: with these codes a quota is one of storage, and not one on what is sent."""


def refusal_of(result: Transaction) -> str | None:
    """Return the fingerprint of an email's refusal as a whole, or None where it was not refused.

    It is None too where a recipient was accepted, or recipients were refused in different ways. The
    same holds if the refusal is about the recipient: no such mailbox, a full one, greylisting.

    Where the server hung up, those count whom it had refused until then.
    """
    if refused := result.refused_early():
        prints = {None if result.mixed else fingerprint(Phase.RCPT, one.reply) for one in refused}
    elif result.verdict not in _REFUSED or not result.recipients:
        return None
    else:
        named = (one for one in result.recipients if one.verdict is not Verdict.NEXT)
        prints = {_of_recipient(result.phase, one) for one in named}
    return prints.pop() if len(prints) == 1 else None


def fingerprint(phase: Phase, reply: Reply) -> str | None:
    """Return what refusals that are alike have in common: phase, code, enhanced code and text.

    Addresses, hosts' names, numbers and ids in the text are masked: two nodes of a server are
    alike. It is None where there is no reply, or where the reply is about the recipient alone.
    """
    if reply.code < 400 or is_greylisting(phase, reply) or _is_recipients_own(phase, reply):
        return None
    return _in_words(phase, reply, without_names(reply.text))


def words_for_people(phase: Phase, reply: Reply) -> str:
    """Return a refusal as people read it: hosts' names stay, such as that of a blocklist."""
    return _in_words(phase, reply, without_addresses(reply.text))


def words_of_refusal(result: Transaction) -> str:
    """Return an email's refusal as people read it: that of the first whom it is about."""
    early = result.refused_early()
    phase = Phase.RCPT if early else result.phase
    named = early or [one for one in result.recipients if one.verdict is not Verdict.NEXT]
    return words_for_people(phase, named[0].reply)


def _in_words(phase: Phase, reply: Reply, text: str) -> str:
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    words = f"{phase}: {reply.code} {reply.enhanced} {' '.join(text.split())}"
    return words[:REFUSAL_LENGTH].rstrip()


def _is_recipients_own(phase: Phase, reply: Reply) -> bool:
    """Return whether a refusal is about the recipient: no such mailbox, or a full one.

    At MAIL no recipient is known. Behind RCPT the whole email is refused: some codes leave it to
    the words.
    """
    words = words_of(reply.text)
    if phase is Phase.MAIL or SENDERS.search(words):
        return False
    plain = _OWN_STATUS if phase is Phase.RCPT else _OWN_BEHIND_RCPT
    if plain.fullmatch(reply.enhanced) or any(said.search(words) for said in _ALWAYS_OWN):
        return True
    if reply.enhanced == "5.4.1" and _EXCHANGES_UNKNOWN.match(reply.text):
        return True
    if not (_SAYS_NOTHING.fullmatch(reply.enhanced) or _OWN_STATUS.fullmatch(reply.enhanced)):
        return False
    is_of_quota = reply.code in _OF_STORAGE and QUOTA.search(words) is not None
    return is_of_quota or RECIPIENTS.search(words) is not None


def _of_recipient(phase: Phase, one: RecipientResult) -> str | None:
    return fingerprint(phase, one.reply) if one.verdict in _REFUSED else None


def is_of_contents(refusal: str | None) -> bool:
    """Return whether this fingerprint is of a refusal of contents, behind the final dot."""
    return refusal is not None and refusal.startswith(f"{Phase.DOT}: ")


def is_like(refusal: str | None, other: str | None) -> bool:
    """Return whether both are refusals of whole emails at the same stage, in whatever words.

    The stages are the envelope and the content. Where a server refuses everybody, its nodes or
    the blocklists that it asks seldom use the same words.
    """
    if refusal is None or other is None:
        return False
    return is_of_contents(refusal) is is_of_contents(other)


def may_be_own(refusal: str | None) -> bool:
    """Return whether a server may refuse some emails like this, and take others.

    So it may refuse contents, in whatever words. It may refuse recipients, in words that are not
    about the sender or the client. At MAIL it knows no more than the sender and the size.
    """
    if refusal is None or is_of_contents(refusal):
        return refusal is not None
    phase, _, said = refusal.partition(": ")
    if phase not in (Phase.RCPT, Phase.DATA):
        return False
    return SENDERS.search(said) is None and CLIENTS.search(said) is None


def is_of_host(refusal: str) -> bool:
    """Return whether the words are about the client as a host, or the server, and no sender."""
    return HOSTS.search(refusal.partition(": ")[2]) is not None


def reason(words: str, *, several: bool = False) -> str:
    """Return the breaker's reason where every email is refused in these words, or in `several`.

    Contents differ in what no envelope tells, so others than these may pass.
    """
    if is_of_contents(words):
        return f"{_CONTENTS}{words}"
    how = "in several ways, the last of them" if several else "alike"
    return f"every email is refused {how}: {words}"


def codes_in(reason: str) -> tuple[int, str] | None:
    """Return the code and the enhanced code, where contents are a breaker's `reason`; else None."""
    if not reason.startswith(_CONTENTS):
        return None
    words = [*reason.removeprefix(_CONTENTS).split(" ", 3), ""]
    return int(words[1]), words[2]


def in_ascii(words: str) -> str:
    """Return a server's words as a database keeps them whose encoding lacks some of their letters.

    Fingerprints that are alike are so afterwards, too.
    """
    return words.encode("ascii", "replace").decode("ascii")
