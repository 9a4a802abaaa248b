"""The library's settings, read once from Flask's config and checked as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ..errors import ConfigurationError, InvalidMessage
from ..header.address import MAX_ID_DOMAIN, check_address
from ..instance import MAX_INSTANCE
from ..scheduling.backoff import FLOOR, STEPS
from ..scheduling.token_bucket import Rate, read_domain_rates, read_rate
from .encryption_keys import read_encryption_keys
from .hint import hint
from .read_settings import check_helo_name, check_instance, read_backoff, read_domain
from .retention import DEFAULT, Retention, read_body_retention, read_retention
from .search_terms import ALL_TERMS, Term, read_search
from .typed_values import DAY, MOST, as_kind, read_switch

PREFIX = "OUTBOX_"
KIBI = 1024
MOST_EMAILS = 10_000
"""The most emails in one batch. Their ids are values of one statement; SQLite takes 32,766."""
MOST_TRIES = 30_000
"""The most attempts of one email, or crashes with it: their columns hold up to 32,767."""


class OnUnknown(StrEnum):
    """What happens to an email in doubt."""

    RESEND = "resend"  # the same bytes again after a backoff, at most twice
    HOLD = "hold"  # `unknown` at once: a person decides


def setting(
    default: Any,
    doc: str,
    *,
    least: float | None = None,
    most: float = MOST,
    read: Callable[[str, Any], Any] | None = None,
    shown: bool = True,
    kind: type | None = None,
) -> Any:
    """Declare one setting: its default, its line in the documentation, its least and most value.

    A value is of its default's type. Where the default is None, `kind` is the type of the others.

    `read` parses a value that is more than a number or a text. It gets the key and the value, and
    raises ConfigurationError. It sees to the least and the most itself. An address has no `read`:
    `from_config` checks it, and lists the settings that are addresses. A setting that is not
    `shown` holds secrets, and `repr` leaves it out.
    """
    rules = {"doc": doc, "least": least, "most": most, "read": read, "kind": kind}
    return field(default=default, metadata=rules, repr=shown)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every `OUTBOX_…` key of Flask's config, lower-cased and without its prefix.

    Times are seconds and sizes are bytes.
    """

    slots: int | None = setting(
        None,
        "the most batches in flight at once; empty: as many as the running workers have"
        " [tasks](#slots) at once",
        least=1,
        kind=int,
    )
    batch: int = setting(400, "emails claimed for one send task", least=1, most=MOST_EMAILS)
    window: int = setting(
        20,
        "emails of one task that can be in doubt at any moment; not more than `OUTBOX_BATCH`",
        least=1,
    )
    window_bytes: int = setting(
        4 * KIBI * KIBI, "bytes of one window; one email may exceed it", least=1
    )
    window_seconds: float = setting(
        5.0,
        "a window closes after this time, but not before one of its emails was judged",
        least=0.0,
    )
    batch_seconds: float = setting(
        15.0, "a task gives back what is left after this time", least=0.1
    )
    lease: float = setting(
        30.0,
        "a claim's lease; a live worker renews it after a third, and a dead one's emails wait for"
        " a second lease: see [below](#a-worker-that-dies)",
        least=1.0,
        most=DAY,
    )
    rate: Rate | None = setting(
        None,
        "recipients per time over all workers, as in `500/min`: up to nine digits, and one of the"
        " units `s`, `min`, `h`, `day`",
        read=read_rate,
    )
    domain_rates: Mapping[str, Rate] | None = setting(
        None,
        'rates by recipient domain, as in `{"gmail.com": "20/s"}`',
        read=read_domain_rates,
    )
    bulk_share: float = setting(
        0.8, "bulk's part of each rate while urgent email waits", least=0.01, most=1
    )
    sweep_interval: float = setting(1.0, "how often beat sweeps", least=0.1)
    nudge: bool = setting(True, "sweep at once after a commit")
    max_attempts: int = setting(
        12, "SMTP attempts with a verdict on the email", least=1, most=MOST_TRIES
    )
    max_crashes: int = setting(
        5,
        "an email ends after this many crashes: its worker failed, or the connection was lost"
        " before the final dot",
        least=3,
        most=MOST_TRIES,
    )
    backoff: tuple[float, ...] = setting(
        STEPS,
        "the longest delays before the second, third, … attempt; the last one repeats. Full jitter:"
        " a delay is random, from 1 s to the longest",
        least=FLOOR,
        most=DAY,
        read=read_backoff,
    )
    lifetime: float = setting(
        2 * DAY,
        "an email without `expires_at` fails when its own delays would add up to this",
        least=1.0,
    )
    on_unknown: OnUnknown = setting(OnUnknown.RESEND, "an email in doubt: `resend` or `hold`")
    max_size: int = setting(35 * KIBI * KIBI, "bytes of one email as sent", least=1)
    reuse_size: int = setting(64 * KIBI, "contents from this size on are stored once", least=0)
    search: tuple[Term, ...] = setting(
        ALL_TERMS,
        "what `list` finds emails by; what is left out costs nothing: see"
        " [what search costs](../performance.md#what-search-costs)",
        read=read_search,
    )
    retention: Retention = setting(
        DEFAULT,
        '`purge` removes emails finished this long ago; or `{"failed": 7776000, "other": 604800}`',
        least=0.0,
        read=read_retention,
    )
    body_retention: float | None = setting(
        None,
        "`purge` removes bodies of emails finished this long ago; empty: with their emails",
        least=0.0,
        read=read_body_retention,
    )
    health_age: float = setting(
        300.0, "`health` fails when the oldest due or claimed email is older", least=0.0
    )
    mail_autocommit: bool = setting(
        False, "`OutboxMail` commits when the session holds nothing else"
    )
    allow_two_commits: bool = setting(
        False,
        "allow emails in another database than the rows of their transaction: if the second of the"
        " two commits fails, there is an email without its rows, or there are rows without it",
    )
    connect_timeout: float = setting(
        10.0, "to connect to the SMTP server, and for the TLS handshake", least=0.1, most=DAY
    )
    command_timeout: float = setting(300.0, "for one SMTP reply, as a whole", least=0.1, most=DAY)
    dot_timeout: float = setting(
        600.0, "for the reply to the final dot (RFC 5321 §4.5.3.2.6)", least=0.1, most=DAY
    )
    transaction_timeout: float = setting(
        900.0,
        "from MAIL to the final dot; an email that takes longer is charged",
        least=0.1,
        most=DAY,
    )
    connection_emails: int = setting(1000, "emails over one SMTP connection", least=1)
    connection_seconds: float = setting(300.0, "life of one SMTP connection", least=0.0)
    tls_verify: bool = setting(True, "verify the SMTP server's certificate and name")
    tls_ca_file: str = setting("", "a CA bundle, read anew if it changes; empty: the system's")
    cleartext_auth: bool = setting(False, "allow credentials over an unencrypted connection")
    helo_name: str = setting("", "the name in EHLO; empty: this host's")
    message_id_domain: str = setting(
        "",
        f"the domain of Message-IDs made here, of up to {MAX_ID_DOMAIN} characters; empty: the"
        " sender's",
        read=read_domain,
    )
    servers: tuple[Any, ...] = setting(
        (), "several SMTP servers; empty: the one of `MAIL_…`", shown=False
    )
    routes: tuple[Any, ...] = setting((), "which emails go over which servers")
    envelope_from: str = setting(
        "", "bounces go to this address, unless a message names another one"
    )
    redirect_to: str = setting("", "staging: every email goes to this one address instead")
    instance: str = setting(
        "",
        f"the name of this installation, such as `production`, of up to {MAX_INSTANCE} characters:"
        " apps without it send nothing from its tables, or from a copy; see"
        " [Restore a backup](../how-to/restore.md)",
    )
    refused_alike: int = setting(
        10,
        "emails that a server refuses alike, none being taken, before it counts as faulty",
        least=2,
    )
    previews: bool | None = setting(
        None,
        "whether `/outbox/previews` is there; empty: in debug mode only",
        read=read_switch,
    )

    encryption_keys: Mapping[str, bytes] | None = setting(
        None,
        'keys by their ids, as in `{"2026-11": "…"}`: 32 octets in base64, and up to 32 characters'
        " of an id; new emails are encrypted with the first: see"
        " [encryption](../how-to/privacy/encryption.md)",
        read=read_encryption_keys,
        shown=False,
    )

    erase_key: str = setting(
        "",
        "the secret under which erased addresses are remembered; empty: `SECRET_KEY`. With another"
        " one they are forgotten: see [export and erase](../how-to/privacy/export-and-erase.md)",
        shown=False,
    )

    @property
    def indexed(self) -> tuple[Term, ...]:
        """What emails can be found by. An encrypted subject is not indexed."""
        if self.encryption_keys is None:
            return self.search
        return tuple(term for term in self.search if term is not Term.SUBJECT)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Settings:
        """Read the `OUTBOX_…` keys. Raises ConfigurationError for an unknown key or wrong value."""
        fields = {PREFIX + f.name.upper(): f for f in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for key, value in config.items():
            if not key.startswith(PREFIX):
                continue
            if key not in fields:
                raise ConfigurationError(f"unknown setting {key}{hint(key, fields, prefix=PREFIX)}")
            values[fields[key].name] = _read(key, value, fields[key])
        for name in ("redirect_to", "envelope_from"):  # all settings that are an address
            if address := values.get(name):
                values[name] = _address(name, address)
        settings = cls(**values)
        settings._check()
        return settings

    def _check(self) -> None:
        if self.window > self.batch:
            raise ConfigurationError("OUTBOX_WINDOW must not be greater than OUTBOX_BATCH")
        check_instance(self.instance)
        check_helo_name(self.helo_name)


def _address(name: str, given: str) -> str:
    """Return the address as it goes on the wire.

    Every email may carry it, so it must not need SMTPUTF8.
    """
    try:
        address = check_address(given, "address")
    except InvalidMessage:
        address = ""
    if not address or not address.isascii():
        rule = "must be one address, with a local part in ASCII"
        raise ConfigurationError(f"{PREFIX}{name.upper()} {rule}")
    return address


def _read(key: str, value: Any, declared: dataclasses.Field[Any]) -> Any:
    default, least, most = (declared.default, *map(declared.metadata.get, ("least", "most")))
    if declared.metadata["read"] is not None:
        return declared.metadata["read"](key, value)
    if isinstance(default, OnUnknown):
        if value not in list(OnUnknown):
            raise ConfigurationError(f"{key} must be one of {', '.join(OnUnknown)}")
        return OnUnknown(value)
    kind = declared.metadata["kind"] or type(default)
    if value is None and default is None:
        return None
    found = as_kind(key, value, kind)
    # `not >=` also refuses NaN, which compares false with everything.
    if least is not None and not found >= least:
        raise ConfigurationError(f"{key} must be at least {least}")
    if least is not None and found > most:
        raise ConfigurationError(f"{key} must be at most {most}")
    return float(found) if kind is float else found
