"""Flask-Security-Too's own password reset: its email commits with what the view wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import event
from sqlalchemy.orm import Session

from outbox.flask_ext.app.state import state_of
from tests.integration.dropin.members import CUSTOMER, DOORS, OLD, Members, drop_in, members
from tests.support.servers.smtp.catcher import Catcher

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture(params=DOORS, ids=lambda door: door.__name__)
def club(request: pytest.FixtureRequest, database_url: str, catcher: Catcher) -> Iterator[Members]:
    found = members(request.param, database_url, catcher, SECURITY_RECOVERABLE=True)
    yield found
    found.close()


def link(club: Members) -> str:
    """Ask for a reset; return the path in the email that comes."""
    answer = club.client().post("/reset", json={"email": CUSTOMER})
    assert answer.status_code == 200
    assert club.catcher.sessions == 0, "SMTP was spoken in the request"
    (message,) = club.arrived()
    (mail,) = club.catcher.emails
    assert (mail.sender, mail.recipients) == ("members@shop.example", (CUSTOMER,))
    text = message.get_body(("plain",))
    assert text is not None
    found = re.search(r"/reset/\S+", text.get_content())
    assert found is not None
    return found[0]


NEW = {"password": "a longer password", "password_confirm": "a longer password"}


def test_a_reset_is_asked_for_and_done_and_no_request_speaks_smtp(club: Members) -> None:
    path = link(club)
    assert club.statuses() == ["sent"]
    sessions = club.catcher.sessions
    assert club.client().post(path, json=NEW).status_code == 200
    assert club.statuses() == ["sent", "pending"], "the notice of the changed password"
    assert club.members()[0]["password"] == NEW["password"]
    assert club.catcher.sessions == sessions


@pytest.mark.parametrize("club", [drop_in], indirect=True)
def test_the_notice_commits_with_the_new_password_or_not_at_all(club: Members) -> None:
    path = link(club)
    seen: list[int] = []

    def fails(session: Session) -> None:
        session.flush()
        table = state_of().runtime.tables.email
        seen.append(len(session.connection().execute(table.select()).all()))
        raise ZeroDivisionError

    event.listen(club.db.session, "before_commit", fails)
    club.app.config["PROPAGATE_EXCEPTIONS"] = True
    with pytest.raises(ZeroDivisionError):
        club.client().post(path, json=NEW)
    assert seen == [2]
    assert club.statuses() == ["sent"]
    assert club.members()[0]["password"] == OLD
