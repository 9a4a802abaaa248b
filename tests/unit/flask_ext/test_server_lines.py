"""What a halted server's line tells a person to do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from outbox.domain.delivery.breaker_timing import BreakerState
from outbox.flask_ext.management.server_lines import server_line
from outbox.store.report_records import ServerStatus

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONNECTIONS = 'set its "connections" in OUTBOX_SERVERS'
RATE = "lower its rate"
PASSWORD = "mend its user name or password, and restart the workers"
AGAIN = "it is tried again by itself"


def line(reason: str, *, alert: bool = False) -> str:
    return server_line(
        ServerStatus(
            server="mx.example:25",
            state=BreakerState.OPEN,
            failures=3,
            since=MOMENT,
            next_probe=MOMENT,
            alert=alert,
            reason=reason,
            batches_allowed=None,
            connections=0,
            configured=True,
        )
    )


@pytest.mark.parametrize(
    "reason",
    [
        "greeting: 421 Too many concurrent SMTP connections; please try again later",
        "greeting: 421 4.7.0 mx.example Error: too many connections from 192.0.2.7",
        "greeting: 450 busy",
        "ehlo: 421 4.4.5 Maximum number of connections exceeded",
        "mail: 421 4.7.0 Too many concurrent connections from your host",
        "auth: 421 connection limit reached",
    ],
)
def test_a_server_that_takes_few_connections_is_told_of_the_setting(reason: str) -> None:
    told = line(reason)
    assert CONNECTIONS in told
    assert RATE not in told


@pytest.mark.parametrize(
    "reason",
    [
        "rcpt: 421 4.7.0 too many messages in this connection, slow down",
        "mail: 450 4.7.1 rate limit exceeded",
        "mail: 454 Throttling failure: maximum sending rate exceeded",
    ],
)
def test_a_throttle_names_the_rate(reason: str) -> None:
    told = line(reason)
    assert RATE in told
    assert CONNECTIONS not in told


@pytest.mark.parametrize(
    "reason",
    [
        "rcpt: 421 4.7.0 mx.example Error: too many errors",
        "mail: 421 4.7.0 Too many errors on this connection, closing transmission channel",
        "mail: 421 4.7.0 mx.example Too many bad commands; closing connection",
        "rcpt: 421 4.7.0 Too many invalid commands.",
        "rcpt: 421 too many syntax or protocol errors",
    ],
)
def test_a_session_that_ends_after_errors_is_no_throttle(reason: str) -> None:
    told = line(reason)
    assert "(it ended the session after too many refusals or errors in it, and names no" in told
    assert "no email is lost or charged, and it is tried again by itself" in told
    assert RATE not in told
    assert "throttles" not in told


def test_a_limit_that_is_named_beside_errors_is_a_throttle() -> None:
    assert RATE in line("rcpt: 421 4.7.0 Too many errors: rate limit exceeded")


@pytest.mark.parametrize("phase", ["connect", "starttls"])
def test_a_certificate_that_does_not_verify_names_the_setting(phase: str) -> None:
    told = line(f"{phase}: 0 the server's certificate does not verify: self-signed certificate")
    assert "(name its authority's certificate in OUTBOX_TLS_CA_FILE, or give MAIL_SERVER" in told
    assert AGAIN not in told
    lost = line(f"{phase}: 0 SSLEOFError: EOF occurred in violation of protocol")
    assert AGAIN in lost
    assert "OUTBOX_TLS_CA_FILE" not in lost


@pytest.mark.parametrize(
    "reason", ["connect: 0 ConnectionRefusedError: refused", "greeting: 554 5.7.1 you are listed"]
)
def test_another_failure_names_neither(reason: str) -> None:
    told = line(reason)
    assert RATE not in told
    assert CONNECTIONS not in told


@pytest.mark.parametrize(
    "reason",
    [
        "dot: 0 the server closed the connection",
        "dot: 0 no whole reply within its deadline",
        "dot: 0 no reply yet",
        "dot: 354 go on",
    ],
)
def test_emails_in_doubt_are_told_and_that_each_is_charged(reason: str) -> None:
    told = line(reason)
    assert "may have gone out: it is in doubt, and its attempt counts" in told
    assert "no email is lost or charged" not in told
    assert AGAIN in told


@pytest.mark.parametrize("reason", ["dot: 421 4.3.2 closing", "data: 0 the server closed"])
def test_a_reply_and_a_connection_lost_before_the_content_leave_no_doubt(reason: str) -> None:
    assert "no email is lost or charged" in line(reason)
    assert "in doubt" not in line(reason)


def test_who_took_too_long_is_told_to_be_charged() -> None:
    told = line("data: 0 the transaction took longer than OUTBOX_TRANSACTION_TIMEOUT")
    assert "the email that took so long first is charged an attempt, and none is lost" in told
    assert "no email is lost or charged" not in told


def test_a_limit_on_connections_names_both_causes() -> None:
    """Postfix says the same of connections at once and of those in a time. A cap opens more."""
    told = line("greeting: 421 4.7.0 mx.example Error: too many connections from 192.0.2.7")
    assert CONNECTIONS in told
    assert "if it limits connections in a time, set none: a cap ends each with its batch" in told


@pytest.mark.parametrize(
    "text",
    [
        "the server does not offer AUTH",
        "the server offers no AUTH mechanism we know",
        "credentials are not sent over an unencrypted connection",
    ],
)
def test_a_login_that_is_not_to_be_had_blames_no_password(text: str) -> None:
    told = line(f"auth: 0 {text}", alert=True)
    assert "(set MAIL_USE_TLS (use_tls) or MAIL_USE_SSL (use_ssl), and the port" in told
    assert "leave the user name and the password out" in told
    assert PASSWORD not in told


@pytest.mark.parametrize(
    "reason",
    [
        "auth: 535 5.7.8 (the server's words are not kept: they may repeat the credentials)",
        "auth: 0 credentials that are not ASCII cannot be sent",
    ],
)
def test_a_login_that_is_refused_asks_for_a_user_name_or_password(reason: str) -> None:
    assert PASSWORD in line(reason, alert=True)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            "starttls: 0 STARTTLS extension not supported by server.",
            "it offers no STARTTLS on this port: set the port that does, mostly 587",
        ),
        (
            "connect: 0 SSLError: [SSL: WRONG_VERSION_NUMBER] wrong version number",
            "it begins in clear on this port: set MAIL_USE_TLS (use_tls), which is STARTTLS",
        ),
    ],
)
def test_a_port_that_speaks_another_tls_names_the_setting(reason: str, words: str) -> None:
    told = line(reason)
    assert words in told
    assert "no email is lost or charged" in told
    assert "restart the workers" in told
