"""The property: no reply, to whatever email or class of emails, delays the others by a minute."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.reply_table import MAILING, ROWS
from outbox.domain.delivery.transaction import Phase, Verdict
from tests.integration.blame.cases import (
    OURS,
    Case,
    Kind,
    Order,
    Servers,
    every_case,
    part,
    some_cases,
)
from tests.integration.blame.play import play
from tests.support.shop.shop import Shops

pytestmark = pytest.mark.over_and_over

SIDE_BY_SIDE = (
    Case(
        part=part(Phase.MAIL, "452 4.3.1 Insufficient system storage"),
        kind=Kind.SIZE,
        order=Order.SPREAD,
        pipelining=True,
    ),
    Case(
        part=part(Phase.RCPT, "421 4.3.2 closing"),
        kind=Kind.DOMAIN,
        servers=Servers.BOTH,
        order=Order.STREAM,
    ),
    Case(part=part(Phase.RCPT, "554 5.7.1 Access denied"), kind=Kind.DOMAIN, bad=12),
    Case(part=part(Phase.DOT, "454 Throttling failure"), kind=Kind.ONE, servers=Servers.EITHER),
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play each part, and to each class; `--whole`: each to each, in all ways."""
    if "case" in metafunc.fixturenames:
        cases = every_case() if metafunc.config.getoption("--whole") else some_cases()
        metafunc.parametrize("case", cases, ids=lambda case: case.id)


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_whoever_always_gets_a_reply_delays_nobody_else_and_ends(case: Case, shops: Shops) -> None:
    play(case, shops)


@pytest.mark.long
@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("beside", SIDE_BY_SIDE, ids=lambda case: case.id)
def test_so_it_is_where_batches_go_side_by_side(beside: Case, shops: Shops) -> None:
    play(beside, shops, threads=4)


@pytest.mark.parametrize("cases", [some_cases, every_case])
def test_every_row_has_a_case_at_each_phase_and_for_each_class(cases: type[list[Case]]) -> None:
    made = cases()
    rows = [row for row in ROWS if row.phases & MAILING and row.key not in OURS]
    for row in rows:
        ours = [case for case in made if case.part.row is row]
        phases = {case.part.phase for case in ours}
        assert phases >= (row.phases & MAILING) - {Phase.BODY} or row.verdict is Verdict.SENT
        missing = set(Kind) - {case.kind for case in ours}
        assert not missing or row.verdict is Verdict.SENT or missing == {Kind.DOMAIN}
