"""What the words of a reply are about: a limit, the sender, the recipient, a later time. Pure."""

from __future__ import annotations

import re

from .transaction import Phase, Reply

LONGEST_DELAY = 86_400.0
"""Seconds: the longest time that a server can name. `backoff.delay` adds up to a tenth to it."""


def _text(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_ADDRESS = re.compile(r"\S*@\S*")
_NAME = re.compile(r"(?i:\bhttps?://\S+)|\b(?:[a-z0-9-]+\.)+[a-z]{2,}\b")
"""A page's address, or a host's name. Exchange's `STOREDRV.Submission` is neither."""
_STOCK = _text(
    r"requested( mail)? action (not taken|aborted)\W*(mailbox (unavailable|not found))?"
    r"|\(e\.g\.[^)]*\)"
)
"""RFC 5321 §4.2.2 has such a text for each code. IONOS and GMX begin every refusal with it."""
_FILLING = _text(r"\S*\d\S*|@|\b(for|please|visit|see|an|more|explanation|information|details)\b")


def without_addresses(text: str) -> str:
    """Return a reply's text with each address masked: `<throttle@shop.example>` is no throttle."""
    return _ADDRESS.sub("@", text)


def without_names(text: str) -> str:
    """Return a reply's text with each address, host's name and page's address masked."""
    return _NAME.sub("@", without_addresses(text))


def words_of(text: str) -> str:
    """Return what a server itself says in a reply's text: that is what a pattern may look at.

    Addresses, hosts' names and pages' addresses are masked. Where words follow the RFC's own text,
    only these count: "Requested action not taken: mailbox unavailable. Mail send limit exceeded."
    """
    words = without_names(text)
    said = _STOCK.sub(" ", words)
    return said if re.search(r"[^\W\d_]{3}", _FILLING.sub(" ", said)) else words


CONNECTIONS = _text(
    r"(too many|maximum|concurrent)( \w+){0,3} (connections|sessions)"
    r"|(?<!per )\b(connection|session)s?( \w+){0,2} (limit|exceeded)|\bthread limit"
)
"""A limit on sessions at once. Exchange speaks of threads: "sender thread limit exceeded"."""
LIMIT = _text(
    r"throttl|rate.?limit|slow.?down|too (fast|quickly|much mail\b(?! data))"
    r"|too many (e-?mails|messages|requests|connect(ion)?s?|sessions)\b"
    r"(?! in .{0,40}box| on the server)"
    r"|too many\b.{0,40}\b(this|per|an|each) (second|minute|hour|day)\b"
    r"|\bsend(ing|er)?('s)?( (?!size)\w+)? (rate|quota|limit)|submission.?quota|messaging limit"
    r"|\b(daily|hourly|monthly)( \w+){0,4} (quota|limit)|\brelay limit"
    r"|\b(e-?mails?|messages?) (quota|limit)( \w+){0,2} (exceeded|reached)|\brate exceeded"
    r"|\b(e-?mails?|messages?|recipients?|failures) per.(second|minute|hour|day|month)\b"
    r"|frequency limited|\b(tenant|account|domain) has exceeded( its| the)? threshold"
    r"|exceeded permitted limits|unusual sending activity"
    r"|unusual (amount|number|rate|volume) of (unsolicited|e?-?mails?\b|messages)"
    rf"|{CONNECTIONS.pattern}"
)
"""A limit on how much is sent. Of one email, a server says "too many hops", "message size limit
exceeded" or "mailbox over quota" in similar words: these do not fit."""
THROTTLE = _text(rf"{LIMIT.pattern}|too (many|much)")
SENDERS_QUOTA = _text(
    r"submission.?quota|\b(send(er|ing)?('?s)?|outgoing|outbound)( e?-?mail)? quota"
    r"|\bquota exceeded (for|by) (the )?sender\b|\bsender has exceeded( \w+){0,2} quota"
)
"""A quota on what is sent, with whatever code: Exchange's has that of a full mailbox, x.2.2."""
CLIENT_THROTTLE = _text(r"too many recipients from|has sent (to )?too many")
"""Limits on a client: Postfix's own, and GoDaddy's, which has the code of an unknown mailbox."""
ERRORS = _text(
    r"too many( [\w-]+){0,4} (errors|commands)\b|too many (bad|invalid|unknown) (users|recipients)"
)
"""The end of a session after errors in it: Postfix, Exchange and others count refusals, too."""
SES_THROTTLE = _text(r"throttling failure")
GMAIL_THROTTLE = _text(r"\brate\b|too (many|fast|quick|much)|throttl|slow.?down|relay limit")

_GREYLIST = _text(r"gr[ea]ylist")
_OF_ONE = rf"(mail|in).?box|over.?quota|receiv(e|ing)\b|{_GREYLIST.pattern}"


def _not_of_one(limit: str) -> re.Pattern[str]:
    return re.compile(rf"\A(?!.*({_OF_ONE})).*?({limit})", re.IGNORECASE | re.DOTALL)


SENDERS_LIMIT = _not_of_one(LIMIT.pattern)
"""The same in reply to RCPT, where greylisting and a mailbox's own limit are told, too."""
POLICY_QUOTA = _not_of_one(r"\bquota exceeded|exceeded( \w+){0,3} quota")
"""A policy's own limit, where the enhanced code is a policy's, x.7.x. Else it may be a mailbox's.
"""

SENDERS = _text(
    r"\bsender( address)? (rejected|refused|denied|verif)|\b(unknown|invalid) sender"
    r"|\bsender( address)?( is)? not (allowed|permitted)|\bnot allowed to send"
    r"|\bsend.?as|storedrv\.submission|\byour ((e-?mail )?(account|quota)|storage quota)\b"
    r"|\byour (e-?mail )?(mail ?box|inbox)\b"
    r"|\bsender('?s)? (account|mail ?box|inbox|not found)|\bsending (account|credits)\b"
    r"|\bsending (is |has been )?disabled|\b(for|from) sending\b|\bsubscription (has|quota|expired)"
    r"|\bapi key\b|\bauthentication failed|\b(des absenders|de l.exp[eé]diteur|del mit+ente)\b"
    r"|\b(ihr|dein) (e-?mail-?)?(post)?fach\b|\b(votre|ta) bo[iî]te\b|\b(tua|vostra) casella\b"
    r"|\b(su|tu) (buz[oó]n|casilla)\b|\b(sua|tua) caixa\b|\bв.ш (\w+ )?ящик|您的邮箱"
    r"|\brelay(ing)?\b.{0,20}\b(not (allowed|permitted)|denied|prohibited|rejected)"
    rf"|\bunable to relay|\bauthentication (is )?required|{SENDERS_QUOTA.pattern}"
)
"""The sender, or the account that we send by, or that we may relay at all. Exim refuses each
recipient of a sender that it cannot verify: "Verification failed for <…> No Such User Here Sender
verify failed"."""
HOSTS = _text(
    r"\bclient\b|\bhelo\b|\bblocked (using|by)\b|\b(black|block|deny)[ -]?list|\bspamhaus\b"
    r"|\byour (ip|host|server|network)\b|\bip address\b|\brcpthosts\b"
    r"|\b(service|server)( \w+){0,2} (unavailable|not available)\b"
)
"""The client as a host, or the server as a whole: a blocklist, or a service that is away."""
CLIENTS = _text(rf"{HOSTS.pattern}|\byour domain\b")
"""The same, or the sender's domain."""
RECIPIENTS = _text(
    r"(user|recipient|mailbox|(?<!ip )address|account)\b.{0,30}"
    r"\b(unknown|not found|unavailable|disabled|inactive|full|does ?n.t exist|not exist|invalid)"
    r"|(no such|unknown|invalid) (user|person|recipient|mailbox|address|account)"
    r"|unrout(e)?able (mail )?(address|domain)"
    r"|over[- ]?(\w+ ){0,3}quota|\b(user|recipient)\b[^.;\n]{0,30}\bquota|\b(their|his|her) quota"
    r"|exceeded storage allocation|too much mail data|user has too many messages"
)
_BOX = r"(mail ?box|inbox|mail ?dir|mail ?folder)"
_NO_SPACE = r"\b(no|out of|not enough|insufficient)( (?!system)\w+)? (storage|space|room)"
FULL_MAILBOX = _text(
    rf"\b{_BOX}\b[^.;\n]{{0,40}}(\b(full|(over)?quota|exceed(s|ed|ing)?)\b|{_NO_SPACE}\b"
    r"|\b(storage|space) (is )?(limit|insufficient|low)\b)"
    rf"|\bfull {_BOX}\b|\bquota( \w+){{0,4}} {_BOX}\b|{_NO_SPACE}( [\w']+){{0,3}} {_BOX}\b"
    rf"|\bexceed(s|ed|ing)?( \w+){{0,2}} {_BOX}\b|\b{_BOX}( \w+){{0,3}} exhausted"
    rf"|\b{_BOX} (space|storage) not enough\b|\binsufficient {_BOX} (space|storage)\b"
    r"|\b(user|recipient|account|mailbox)(\(s\)|s)?( \S+){0,2} (does ?n.t|do not|does not)"
    r" have enough (\w+ )?(space|storage|room)"
)
"""A mailbox, by that name, that is full. Servers say so with codes of policies and systems, too."""
FULL_ABROAD = _text(
    r"(?<!ihr )\b(post|e-?mail-?)fach\b.{0,40}\b(voll|überfüllt|ueberfuellt)\b"
    r"|(?<!votre )\bbo[iî]te\b.{0,40}\b(pleine|satur[eé]e)\b"
    r"|\b(casella|casilla|caixa)\b.{0,40}\b(piena|llena|cheia|lotada)\b|\bbuz[oó]n\b.{0,40}\blleno\b"
    r"|\bskrzynka\b.{0,40}\b(prze)?pe[lł]n|\bpostvak\b.{0,40}\bvol\b"
    r"|\bposta kutusu\b.{0,40}\bdolu\b|\bящик\b.{0,40}переполнен|邮箱.{0,4}(空间不足|已满)"
    r"|メールボックス.{0,12}(超え|いっぱい|一杯)"
)
"""The same in German, French, Italian, Spanish, Portuguese, Polish, Dutch, Turkish, Russian,
Chinese and Japanese."""
SUPPRESSED = _text(
    r"\brecipient( address)?( is| was| has been)? (suppressed\b|on (the|our|a) suppression list)"
)
"""A recipient to whom the server itself, a provider's, sends no more: he bounced before."""
QUOTA = _text(r"\bquota\b")

_UNITS = {"s": 1, "m": 60, "h": 3600}
_NAMED = _text(
    r"\b(?:again|retry|retried|wait|back|greylist(?:ed|ing)?|graylist(?:ed|ing)?)\b[^.\d]{0,30}"
    r"\b(\d{1,9}) ?(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)\b"
)
_CLIENT = _text(r"(client host|helo command) rejected|service unavailable")
_LATER = _text(r"\b(again|later|wait|retr(y|ied)|delay|defer|temporar|come back)")
_NAMES = _text(r"\S*[./@]\w\S*")


def is_throttle(text: str) -> bool:
    """Return whether a reply that halts an email asks for less: it names a limit on the client."""
    words = words_of(text)
    is_limit = bool(THROTTLE.search(words) or POLICY_QUOTA.search(words))
    return is_limit and not ends_after_errors(text)


def ends_after_errors(text: str) -> bool:
    """Return whether a server ends a session for the errors in it, and names no other limit."""
    words = words_of(text)
    return bool(ERRORS.search(words)) and not LIMIT.search(words)


def named_delay(text: str) -> float | None:
    """Return the seconds that a text names ("try again in 300 seconds"), at most a day."""
    found = _NAMED.search(text)
    if found is None:
        return None
    return min(float(found[1]) * _UNITS[found[2][0].lower()], LONGEST_DELAY)


def is_greylisting(phase: Phase, reply: Reply) -> bool:
    """Return whether the server asks an unknown client to come back later (RFC 6647).

    Postfix also says 450 4.7.1 where it refuses the client or the sender for good: "Client host
    rejected: cannot find your hostname". Some greylisters begin in the same way, but then they
    speak of later. At MAIL, DATA and the dot Postfix says so where a milter is gone, and only the
    word tells. And policy servers say 450 4.7.1 for a throttle or a quota.
    """
    if _GREYLIST.search(without_addresses(reply.text)):
        return True
    if reply.code not in (450, 451) or reply.enhanced != "4.7.1" or phase is not Phase.RCPT:
        return False
    words = words_of(reply.text)
    if LIMIT.search(words) or POLICY_QUOTA.search(words):
        return False
    if _CLIENT.search(reply.text) is None and SENDERS.search(words) is None:
        return True
    words = _NAMES.sub(" ", reply.text)  # without `<later.example>` and a page's address
    return _LATER.search(words) is not None
