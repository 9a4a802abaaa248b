"""The rows of what comes after a verdict: RSET, QUIT, and the next email on an idle connection."""

from __future__ import annotations

from typing import Any

from tests.support.servers.smtp.scripted import reset, stall
from tests.support.servers.smtp.stateful import Says, hang_up
from tests.support.verdicts.case import AT, FAIL, SENT, Case, Following, TableRow, case
from tests.support.verdicts.session import SHORT

NEW: dict[str, Any] = {"following": Following.NEW}
QUEUED = "250 2.0.0 queued"

AFTERWARDS: tuple[Case, ...] = (
    *(
        case(
            TableRow.FAREWELL,
            f"RSET {name}",
            {"DATA": "554 5.7.1 no", "RSET": answer},
            FAIL,
            AT.DATA,
            "554 5.7.1 no",
            config=config,
            **NEW,
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
        case(
            TableRow.FAREWELL,
            f"QUIT {name}",
            {"QUIT": answer},
            SENT,
            AT.DOT,
            QUEUED,
            config={"OUTBOX_CONNECTION_EMAILS": 1, "OUTBOX_COMMAND_TIMEOUT": 1.0},
            **NEW,
        )
        for name, answer in (
            ("5xx", "500 what"),
            ("garbage", "what?"),
            ("closed", hang_up),
            ("reset", reset),
            ("silent", stall),
        )
    ),
    case(TableRow.IDLE, "421", {"MAIL 2": "421 4.4.2 idle"}, SENT, AT.DOT, QUEUED, **NEW),
    case(TableRow.IDLE, "closed at MAIL", {"MAIL 2": hang_up}, SENT, AT.DOT, QUEUED, **NEW),
    case(
        TableRow.IDLE,
        "closed after the verdict",
        {".": Says(reply=QUEUED, then=hang_up)},
        SENT,
        AT.DOT,
        QUEUED,
        **NEW,
    ),
    case(
        TableRow.IDLE,
        "reset after the verdict",
        {"MAIL 2": reset},
        SENT,
        AT.DOT,
        QUEUED,
        **NEW,
    ),
)
