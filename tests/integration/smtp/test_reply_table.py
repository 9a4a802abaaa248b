"""The table of replies against a server that plays every row, over real sockets."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.transaction import Verdict
from outbox.smtp.connection import Connection
from tests.integration.smtp.content_cases import CONTENT_CASES
from tests.integration.smtp.reply_cases import ENVELOPE_CASES, Case
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.scripted import ScriptedServer

CONTENT = b"Subject: x\r\n\r\nHello\r\n.\r\n..dots\r\n"
ON_WIRE = b"Subject: x\r\n\r\nHello\r\n..\r\n...dots\r\n.\r\n"


@pytest.mark.parametrize("case", [*ENVELOPE_CASES, *CONTENT_CASES], ids=lambda case: case.name)
def test_each_row_of_the_table_gives_its_verdict_and_leaves_a_clean_way_for_the_next_email(
    case: Case,
) -> None:
    verdicts = case.recipients or (case.verdict,)
    mail = envelope(*(f"r{number}@example.org" for number in range(len(verdicts))))
    with ScriptedServer(case.script) as server:
        settings = server.settings(dot_timeout=1.0 if "silent" in case.name else 5.0)
        connection = Connection(settings)
        result = connection.send(mail, CONTENT, lease_held)
        after = connection.send(envelope(), CONTENT, lease_held)
        connection.close()

    assert (result.verdict, result.phase) == (case.verdict, case.phase)
    assert tuple(r.verdict for r in result.recipients) == verdicts
    assert tuple(r.address for r in result.recipients) == mail.recipients
    assert (result.alert, result.retry_after) == (case.alert, case.retry_after)
    assert after.verdict is Verdict.SENT
    assert len(server.dialogues) == (2 if case.renewed else 1)
    assert server.bodies[-1] == ON_WIRE
