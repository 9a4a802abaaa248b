"""A server's certificate that does not verify: each line that a person sees names the remedy."""

from __future__ import annotations

import logging

import pytest

from outbox.domain.delivery.breaker_timing import Cause
from outbox.store.control.circuit_breaker import trip
from tests.support.servers.authority import Authority
from tests.support.servers.smtp.stateful import EXTENSIONS, StatefulServer
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.one_database("sqlite")

FAULT = "the server's certificate does not verify: "
REMEDIES = ("in OUTBOX_TLS_CA_FILE", "the name that stands in", "renewed at the server")


def opened(shops: Shops, server: StatefulServer, ca_file: str) -> Shop:
    trusted = {"OUTBOX_TLS_CA_FILE": ca_file} if ca_file else {}
    shop = shops.open(MAIL_PORT=server.port, MAIL_USE_TLS=True, **trusted)
    shop.enqueue("ada@customers.example")
    shop.enqueue("bob@customers.example")
    return shop


@pytest.mark.long
@pytest.mark.parametrize(
    ("certificate", "is_trusted"), [("server", False), ("misnamed", True), ("expired", True)]
)
def test_each_line_is_an_alert_that_names_the_remedy(
    shops: Shops,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    certificate: str,
    is_trusted: bool,
) -> None:
    tls = getattr(authority, certificate)
    with StatefulServer({}, extensions=(*EXTENSIONS, "STARTTLS"), starttls=tls) as server:
        shop = opened(shops, server, authority.ca_file if is_trusted else "")
        run = runner(shop)
        printed = run("drain", code=1).output
        assert "2 emails handled, none sent\n" in printed
        outputs = [printed, *(run(name, code=1).output for name in ("check", "health"))]
        outputs += [run("stats").output, run("show", 1).output]
        for output in outputs:
            [line] = [line for line in output.splitlines() if FAULT in line]
            assert all(remedy in line for remedy in REMEDIES), line
            assert "it is tried again by itself" not in line
        assert all("ALERT: " in output for output in outputs[:4])
        assert "error  ALERT: " in outputs[1]
        [logged] = [record for record in caplog.records if "is halted" in record.getMessage()]
        assert logged.levelno == logging.ERROR
        assert all(remedy in logged.getMessage() for remedy in REMEDIES)


@pytest.mark.long
def test_a_mended_certificate_ends_the_alert_by_itself(shops: Shops, authority: Authority) -> None:
    expired, extensions = authority.expired, (*EXTENSIONS, "STARTTLS")
    with StatefulServer({}, extensions=extensions, starttls=expired) as server:
        shop = opened(shops, server, authority.ca_file)
        run = runner(shop)
        run("drain", code=1)
        server.starttls = authority.server
        shop.later(6)  # it may have been one of several servers behind the name
        assert "2 emails handled\n" in run("drain").output
        assert "ALERT" not in run("health").output
        assert shop.statuses() == ["sent", "sent"]


@pytest.mark.long
def test_a_later_outage_is_told_behind_the_certificate(shops: Shops, authority: Authority) -> None:
    """Who has mended the certificate must not think that it is still at fault."""
    expired, extensions = authority.expired, (*EXTENSIONS, "STARTTLS")
    with StatefulServer({}, extensions=extensions, starttls=expired) as server:
        shop = opened(shops, server, authority.ca_file)
        run = runner(shop)
        run("drain", code=1)
        server.refuse()
        for _ in range(2):
            shop.later(30)
            run("drain", code=1)
        [line] = [line for line in run("check", code=1).output.splitlines() if FAULT in line]
        assert "error  ALERT: " in line
        assert "has expired; since then connect: 0 ConnectionRefusedError: " in line
        assert line.count("since then") == 1
        assert all(remedy in line for remedy in REMEDIES)


def test_a_wrong_password_that_the_certificate_hid_is_news(shop: Shop) -> None:
    reasons = [f"starttls: 0 {FAULT}expired", "auth: 535 5.7.8 wrong", "auth: 535 5.7.8 wrong"]
    told = [
        trip(shop.runtime.database, "main", cause=Cause.SESSION, reason=reason, alert=True)
        for reason in reasons
    ]
    assert told == [True, True, False]


@pytest.mark.long
def test_drain_counts_what_left_where_not_all_did(shops: Shops) -> None:
    with StatefulServer({"RCPT": "550 5.1.1 unknown"}) as server:
        shop = shops.open(MAIL_PORT=server.port)
        shop.enqueue("ada@customers.example")
        shop.enqueue("bob@customers.example")
        assert "2 emails handled, 1 sent\n" in runner(shop)("drain").output
        assert sorted(shop.statuses()) == ["failed", "sent"]
