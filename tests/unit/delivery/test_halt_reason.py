"""What a halted server's own words say of what a person can do."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.halt_reason import (
    ask_for_the_same,
    halt_reason,
    is_unverified,
    refuses_connections,
    refuses_login,
    throttles,
    told_since,
)
from outbox.domain.delivery.transaction import Phase
from outbox.smtp.reply_reader import parse_reply

CERTIFICATE = "starttls: 0 the server's certificate does not verify: certificate has expired"
REFUSED = "connect: 0 ConnectionRefusedError: [Errno 111] Connection refused"


def reason(phase: Phase, line: str) -> str:
    return halt_reason(phase, parse_reply(int(line[:3]), line[4:].encode()))


@pytest.mark.parametrize("phase", [Phase.MAIL, Phase.DOT])
@pytest.mark.parametrize(
    "line",
    [
        "432 4.3.2 Concurrent connections limit exceeded. Visit https://aka.ms/concurrent_sending",
        "432 4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded [Hostname=A.example]",
        "550 Exceeding outbound thread limit",
        "421 Too many concurrent SMTP connections",
    ],
)
def test_a_limit_on_sessions_at_once_asks_for_fewer_connections(phase: Phase, line: str) -> None:
    assert refuses_connections(reason(phase, line))


@pytest.mark.parametrize(
    "line", ["450 4.7.0 rate limit exceeded", "550 5.4.5 Daily user sending quota exceeded"]
)
def test_a_limit_in_a_time_asks_for_a_lower_rate(line: str) -> None:
    told = reason(Phase.DOT, line)
    assert (refuses_connections(told), throttles(told)) == (False, True)


def test_an_alert_asks_for_the_same_whatever_came_since() -> None:
    both = told_since(CERTIFICATE, REFUSED, most=500)
    assert both == f"{CERTIFICATE}; since then {REFUSED}"
    assert told_since(both, "greeting: 421 no", most=500) == (
        f"{CERTIFICATE}; since then greeting: 421 no"
    )
    assert is_unverified(both)
    assert ask_for_the_same(both, CERTIFICATE)
    assert refuses_login(told_since("auth: 535 no", REFUSED, most=500))


@pytest.mark.parametrize(("alert", "newest"), [(CERTIFICATE, 9 * REFUSED), (9 * REFUSED, "no")])
def test_what_was_told_first_keeps_half_of_the_place(alert: str, newest: str) -> None:
    both = told_since(alert, newest, most=100)
    assert len(both) == 100
    assert both.startswith(alert[:50])
    assert "; since then " in both
