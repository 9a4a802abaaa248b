"""Which servers an email may go over, and in what order they are tried. Pure.

A route is chosen once, when the email is written: the first rule of `OUTBOX_ROUTES` that fits its
tag and its envelope sender. Where no rule fits, the email takes the default route: every server, or
the servers of a rule without a condition, which stands last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigurationError, InvalidMessage
from ..header.address import check_address, domain_of
from ..scheduling.token_bucket import Rate
from .hint import hint
from .servers import ServerSettings

DEFAULT = ""
"""The name of the default route where no rule names it."""

ROUTE_LENGTH = 32
_NAME = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{ROUTE_LENGTH - 1}}}")
_KEYS = ("name", "tag", "sender_domain", "servers")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One entry of `OUTBOX_ROUTES`: each condition that it has must be met."""

    name: str
    servers: tuple[str, ...]
    tag: str | None = None  # a last "*" stands for any rest
    sender_domain: str | None = None

    def fits(self, domain: str, tag: str | None) -> bool:
        """Return whether emails of this sender's domain with this tag take the route."""
        return self.sender_domain in (None, domain) and (self.tag is None or self._fits_tag(tag))

    def _fits_tag(self, tag: str | None) -> bool:
        wanted = self.tag or ""
        if tag is None:
            return False
        return tag.startswith(wanted[:-1]) if wanted.endswith("*") else tag == wanted

    @property
    def is_default(self) -> bool:
        """Whether the rule has no condition."""
        return self.tag is None and self.sender_domain is None


class Routes:
    """The rules over the servers. Immutable."""

    def __init__(self, servers: Sequence[ServerSettings], rules: Sequence[Rule] = ()) -> None:
        by_name = {server.name: server for server in servers}
        self._rules = tuple(rules)
        self._servers = {
            rule.name: tuple(by_name[name] for name in rule.servers) for rule in self._rules
        }
        last = self._rules[-1].name if self._rules and self._rules[-1].is_default else DEFAULT
        self._default = last
        self._servers.setdefault(DEFAULT, self._servers.get(last, tuple(servers)))

    @classmethod
    def read(cls, entries: Iterable[Any], servers: Sequence[ServerSettings]) -> Routes:
        """Check the entries of `OUTBOX_ROUTES`, or raise ConfigurationError."""
        names = [server.name for server in servers]
        rules = [_rule(place, entry, names) for place, entry in enumerate(entries)]
        for place, rule in enumerate(rules):
            if rule.name in {earlier.name for earlier in rules[:place]}:
                raise ConfigurationError(f"OUTBOX_ROUTES has two routes with the name {rule.name}")
            if rule.is_default and place < len(rules) - 1:
                raise ConfigurationError(
                    f"OUTBOX_ROUTES: {rule.name} has no condition, so it must stand last"
                )
        return cls(servers, rules)

    @property
    def names(self) -> tuple[str, ...]:
        """Every route that an email can be given, the default one last."""
        named = tuple(rule.name for rule in self._rules if not rule.is_default)
        return (*named, self._default)

    def route_of(self, sender: str, tag: str | None) -> str:
        """Return the name of the route for emails of this envelope sender with this tag."""
        if not self._rules:
            return DEFAULT
        domain = domain_of(sender)
        return next((rule.name for rule in self._rules if rule.fits(domain, tag)), DEFAULT)

    @property
    def buckets(self) -> dict[str, dict[str, Rate]]:
        """The rates that each route's emails draw on: its server's, or the sum of its servers'.

        Where a route has several servers, a server's own rate is checked when it is chosen.
        """
        return {route: _buckets(route, servers) for route, servers in self._servers.items()}

    def servers_of(self, route: str) -> tuple[ServerSettings, ...]:
        """Return a route's servers; those of the default route if it is no longer configured."""
        return self._servers.get(route, self._servers[DEFAULT])


def arrange(
    servers: Iterable[ServerSettings], halted: Collection[str], random: Callable[[], float]
) -> tuple[ServerSettings, ...]:
    """Return the servers in the order in which to try them, without those that are `halted`.

    The lower `order` comes first. Servers of one order are drawn by weight: a server of weight 3
    comes before one of weight 1 three times out of four. `random` returns numbers from 0 to 1.
    """
    usable = [server for server in servers if server.name not in halted]
    # Efraimidis and Spirakis 2006: sorting by u^(1/w) draws without replacement by weight.
    drawn = {server.name: random() ** (1 / server.weight) for server in usable}
    return tuple(sorted(usable, key=lambda server: (server.order, -drawn[server.name])))


def _buckets(route: str, servers: Sequence[ServerSettings]) -> dict[str, Rate]:
    rates = [server.rate for server in servers if server.rate is not None]
    if len(rates) < len(servers):
        return {}
    if len(servers) == 1:
        return {servers[0].bucket: rates[0]}
    return {f"route:{route}": Rate(sum(1 / rate.interval for rate in rates), 1)}


def _rule(place: int, entry: Any, known: Sequence[str]) -> Rule:
    where = f"OUTBOX_ROUTES[{place}]"
    if not isinstance(entry, Mapping):
        raise ConfigurationError(f"{where} must be dict, not {type(entry).__name__}")
    for key in entry:
        if key not in _KEYS:
            raise ConfigurationError(f"unknown key {key!r} in {where}{hint(key, _KEYS)}")
    name, tag = entry.get("name"), entry.get("tag")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{where}['name'] must be 1 to {ROUTE_LENGTH} lower-case letters, digits, - and _"
        )
    if tag is not None and (not isinstance(tag, str) or not tag):
        raise ConfigurationError(f"{where}['tag'] must be text")
    return Rule(
        name=name,
        servers=_named(where, entry.get("servers"), known),
        tag=tag,
        sender_domain=_domain(where, entry.get("sender_domain")),
    )


def _named(where: str, servers: Any, known: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(servers, (list, tuple)) or not servers:
        raise ConfigurationError(f"{where}['servers'] must be a list of servers' names")
    for place, name in enumerate(servers):
        if name not in known:
            raise ConfigurationError(f"{where} has the unknown server {name!r}{hint(name, known)}")
        if name in servers[:place]:
            raise ConfigurationError(f"{where} has the server {name} twice")
    return tuple(servers)


def _domain(where: str, domain: Any) -> str | None:
    if domain is None:
        return None
    try:
        return domain_of(check_address(f"postmaster@{domain}", "sender_domain"))
    except InvalidMessage as error:
        raise ConfigurationError(f"{where}: {error}") from None
