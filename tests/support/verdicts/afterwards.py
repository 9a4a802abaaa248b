"""The rows of what comes after a verdict: RSET, QUIT, and the next email on an idle connection."""

from __future__ import annotations

from functools import partial

from outbox.domain.delivery.transaction import Verdict
from tests.support.servers.smtp.scripted import reset, stall
from tests.support.servers.smtp.stateful import Says, hang_up
from tests.support.verdicts import rows
from tests.support.verdicts.case import AT, QUEUED, Case, Following, TableRow, case
from tests.support.verdicts.session import SHORT

farewell = partial(case, TableRow.FAREWELL, following=Following.NEW)
LAST_ON_ITS_CONNECTION = {"OUTBOX_CONNECTION_EMAILS": 1, "OUTBOX_COMMAND_TIMEOUT": 1.0}

AFTERWARDS: tuple[Case, ...] = (
    *(
        farewell(
            f"RSET {name}",
            {"DATA": "554 5.7.1 no", "RSET": answer},
            Verdict.FAIL,
            AT.DATA,
            "554 5.7.1 no",
            config=config,
        )
        for name, answer, config in (
            ("4xx", "450 later", {}),
            ("5xx", "500 what", {}),
            ("421", "421 bye", {}),
            ("garbage", "what?", {}),
            ("closed", hang_up, {}),
            ("silent", stall, SHORT),
        )
    ),
    *(
        farewell(f"QUIT {name}", {"QUIT": answer}, **rows.DELIVERED, config=LAST_ON_ITS_CONNECTION)
        for name, answer in (
            ("5xx", "500 what"),
            ("garbage", "what?"),
            ("closed", hang_up),
            ("reset", reset),
            ("silent", stall),
        )
    ),
    rows.idle("421", {"MAIL 2": "421 4.4.2 idle"}),
    rows.idle("closed at MAIL", {"MAIL 2": hang_up}),
    rows.idle("closed after the verdict", {".": Says(reply=QUEUED, then=hang_up)}),
    rows.idle("reset after the verdict", {"MAIL 2": reset}),
)
