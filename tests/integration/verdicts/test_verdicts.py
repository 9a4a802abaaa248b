"""Every row of the verdict table, from enqueue to record, against a server that plays it."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.domain.delivery.reply_table import ROWS, Row
from outbox.domain.delivery.transaction import Phase
from tests.support.servers.authority import Authority
from tests.support.shop.shop import Shops
from tests.support.verdicts.case import Case, TableRow, said
from tests.support.verdicts.content import CONTENT
from tests.support.verdicts.envelope import ENVELOPE
from tests.support.verdicts.play import play
from tests.support.verdicts.session import SESSION

pytestmark = pytest.mark.over_and_over

CASES = (*SESSION, *ENVELOPE, *CONTENT)
FIRST = {case.row: case.id for case in reversed(CASES)}
"""One case of each row: `make test` plays these."""
# Until a session is open nobody pipelines: RFC 2920 begins with the reply to EHLO.
PIPELINED = tuple(case for case in (*ENVELOPE, *CONTENT) if case.alike)
ON_EVERY_DATABASE = tuple(
    next(case for case in CASES if case.id == wanted)
    for wanted in (
        "auth_refused: 535",
        "connect: over-long line",
        "closing: dot",
        "mail_refused: 4xx that names a time",
        "lost_early: MAIL closed",
        "rcpt_refused: some of three",
        "rcpt_refused: a text that is hostile to terminals and databases",
        "refused_early: 421 at RCPT",
        "refused_early: closed at RCPT",
        "throttled_alone: Gmail",
        "too_many: 452",
        "lost_lease: after RCPT",
        "dot_accepted: a text that is too long",
        "dot_refused: 5xx",
        "dot_silent: closed under hold",
        "dot_silent: closed after one of two was put off: it is not in doubt",
        "idle: 421",
    )
)


def quick(case: Case) -> Any:
    """Leave all but the first case of a row to `make test-all`."""
    is_first = FIRST[case.row] == case.id
    return pytest.param(case, id=case.id, marks=() if is_first else pytest.mark.long)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("case", [quick(case) for case in CASES])
def test_each_row_does_to_the_email_and_to_the_next_one_what_the_table_says(
    case: Case, shops: Shops, authority: Authority
) -> None:
    play(case, shops, authority)


@pytest.mark.long
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("case", PIPELINED, ids=lambda case: case.id)
def test_each_row_does_the_same_where_the_server_offers_pipelining(
    case: Case, shops: Shops, authority: Authority
) -> None:
    play(case, shops, authority, pipelining=True)


@pytest.mark.one_database("mariadb")
@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("case", ON_EVERY_DATABASE, ids=lambda case: case.id)
def test_rows_of_each_kind_do_the_same_on_the_other_databases(
    case: Case, shops: Shops, authority: Authority
) -> None:
    play(case, shops, authority)


@pytest.mark.parametrize("row", TableRow, ids=lambda row: row.name.lower())
def test_every_row_of_the_written_table_has_a_case(row: TableRow) -> None:
    assert any(case.row is row for case in CASES)


def test_every_row_of_the_code_decides_a_case() -> None:
    decided = [row for case in CASES for row in deciding(case)]
    assert [row for row in ROWS if row not in decided] == []


def deciding(case: Case) -> list[Row]:
    """Return the rows that judge a case's replies: the email's, and those to single recipients."""
    key = case.event or str(case.reply.code)
    whole = next(row for row in ROWS if row.applies(case.phase, key, case.reply, False))
    assert whole.verdict is case.verdict
    return [whole, *_of_recipients(case)]


def _of_recipients(case: Case) -> list[Row]:
    """Return the rows that judge the refusals at RCPT, in their order."""
    rows, accepted = [], False
    for number in range(1, len(case.recipients) + 1):
        line = case.answers.get("RCPT" if number == 1 else f"RCPT {number}", "250 ok")
        if not isinstance(line, str) or line.startswith("2"):
            accepted = True
            continue
        reply = said(line)
        key = str(reply.code)
        rows.append(next(row for row in ROWS if row.applies(Phase.RCPT, key, reply, accepted)))
    return rows
