"""Which servers an email may go over, and in what order they are tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.config.routing import Routes, arrange
from outbox.domain.config.servers import ServerSettings
from outbox.domain.errors import ConfigurationError
from tests.support.servers.smtp.client import server_settings


def server(name: str, **changes: Any) -> ServerSettings:
    return server_settings(25, label=name, **changes)


SES, OWN, SPARE = server("ses"), server("own"), server("spare", order=2)
SERVERS = (SES, OWN, SPARE)
NEWS = {"name": "bulk", "tag": "news-*", "servers": ["ses"]}
BRAND = {"name": "brand", "sender_domain": "Brand.example", "servers": ["own", "spare"]}


def names(servers: tuple[ServerSettings, ...]) -> list[str]:
    return [server.name for server in servers]


def refused(*entries: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Routes.read(entries, SERVERS)
    return str(caught.value)


def test_without_rules_every_email_may_go_over_every_server() -> None:
    routes = Routes.read((), SERVERS)
    assert routes.route_of("a@x.example", "news-1") == ""
    assert routes.servers_of("") == SERVERS
    assert routes.names == ("",)


def test_the_first_rule_that_fits_wins() -> None:
    routes = Routes.read([NEWS, BRAND], SERVERS)
    assert routes.route_of("a@brand.example", "news-1") == "bulk"
    assert routes.route_of("a@BRAND.example", None) == "brand"
    assert routes.route_of("a@shop.example", None) == ""
    assert names(routes.servers_of("bulk")) == ["ses"]
    assert names(routes.servers_of("brand")) == ["own", "spare"]
    assert routes.servers_of("") == SERVERS
    assert routes.names == ("bulk", "brand", "")


@pytest.mark.parametrize(
    ("tag", "given", "fits"),
    [
        ("news", "news", True),
        ("news", "news-1", False),
        ("news", None, False),
        ("news*", "news", True),
        ("news*", "newsletter", True),
        ("news*", "old-news", False),
        ("*", "anything", True),
        ("*", None, False),  # an email without a tag
    ],
)
def test_a_tag_is_matched_whole_or_by_its_beginning(
    tag: str, given: str | None, fits: bool
) -> None:
    routes = Routes.read([{"name": "x", "tag": tag, "servers": ["ses"]}], SERVERS)
    assert (routes.route_of("a@x.example", given) == "x") is fits


def test_both_conditions_of_a_rule_must_be_met() -> None:
    routes = Routes.read([BRAND | {"tag": "t"}], SERVERS)
    assert routes.route_of("a@brand.example", "t") == "brand"
    assert routes.route_of("a@brand.example", "u") == ""
    assert routes.route_of("a@x.example", "t") == ""


def test_the_domain_is_compared_as_it_goes_on_the_wire() -> None:
    entry = {"name": "x", "sender_domain": "m\u00fcller.example", "servers": ["ses"]}
    routes = Routes.read([entry], SERVERS)
    assert routes.route_of("a@xn--mller-kva.example", None) == "x"
    assert routes.route_of("a@sub.xn--mller-kva.example", None) == ""
    assert routes.route_of("", None) == ""  # the null reverse path


def test_a_last_rule_without_a_condition_is_the_default_route() -> None:
    routes = Routes.read([NEWS, {"name": "rest", "servers": ["own"]}], SERVERS)
    assert routes.route_of("a@x.example", None) == "rest"
    assert names(routes.servers_of("rest")) == ["own"]
    assert routes.names == ("bulk", "rest")


@pytest.mark.parametrize("gone", ["", "once"])
def test_a_route_that_is_configured_no_more_is_the_default_route(gone: str) -> None:
    assert Routes.read([NEWS], SERVERS).servers_of(gone) == SERVERS
    routes = Routes.read([NEWS, {"name": "rest", "servers": ["own"]}], SERVERS)
    assert names(routes.servers_of(gone)) == ["own"]


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([NEWS | {"servers": ["sse"]}], "unknown server 'sse'; did you mean ses?"),
        ([NEWS | {"servers": []}], "['servers'] must be a list of servers' names"),
        ([NEWS | {"servers": "ses"}], "['servers'] must be a list of servers' names"),
        ([NEWS | {"servers": ["ses", "ses"]}], "has the server ses twice"),
        ([NEWS | {"servers": [["ses"]]}], "unknown server"),
        ([NEWS, NEWS], "two routes with the name bulk"),
        ([{"name": "a", "servers": ["ses"]}, NEWS], "a has no condition, so it must stand last"),
        ([NEWS | {"name": "Bulk mail"}], "['name'] must be 1 to 32 lower-case letters"),
        ([NEWS | {"name": "x" * 33}], "['name'] must be 1 to 32 lower-case letters"),
        ([{"tag": "t", "servers": ["ses"]}], "['name'] must be"),
        ([NEWS | {"tag": 5}], "['tag'] must be text"),
        ([NEWS | {"tag": ""}], "['tag'] must be text"),
        ([NEWS | {"sender_domain": "two words"}], "sender_domain"),
        ([NEWS | {"sender_domian": "x.example"}], "did you mean sender_domain?"),
        (["bulk"], "OUTBOX_ROUTES[0] must be dict, not str"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_place_and_the_reason(
    entries: list[Any], told: str
) -> None:
    assert told in refused(*entries)


def test_the_lower_order_comes_first_whatever_the_weights() -> None:
    heavy = server("heavy", order=2, weight=1000)
    for chance in (0.0, 0.5, 1.0):
        assert names(arrange((heavy, SES), (), lambda: chance)) == ["ses", "heavy"]  # noqa: B023


def test_a_halted_server_is_left_out_and_the_next_one_is_tried() -> None:
    assert names(arrange(SERVERS, {"ses", "own"}, lambda: 0.5)) == ["spare"]
    assert arrange(SERVERS, {"ses", "own", "spare"}, lambda: 0.5) == ()


def first(servers: tuple[ServerSettings, ...], random: Callable[[], float]) -> str:
    return arrange(servers, (), random)[0].name


def test_within_an_order_servers_come_first_by_their_weight() -> None:
    servers = (server("three", weight=3), server("one", weight=1), SPARE)
    random = Random(7).random
    draws = Counter(first(servers, random) for _ in range(4000))
    assert draws["three"] == pytest.approx(3000, abs=120)
    assert draws["one"] == 4000 - draws["three"]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.sets(st.sampled_from(["ses", "own"])))
def test_every_usable_server_is_tried_once(chances: list[float], halted: set[str]) -> None:
    arranged = names(arrange(SERVERS, halted, iter(chances).__next__))
    assert sorted(arranged) == sorted({"ses", "own", "spare"} - halted)
    assert arranged[-1] == "spare"
