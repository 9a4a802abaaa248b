"""The newsletter's page tells what happens to its emails, with and without its script."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from flask import Flask
from sqlalchemy import delete

from outbox import Priority
from outbox.domain.config.settings import OnUnknown
from outbox.store.transitions.rescue import rescue
from outbox.store.transitions.start import start
from outbox.store.transitions.window import advance
from tests.support.shop.steps.claims import claim_batch
from webapp.extensions import db, outbox

pytestmark = pytest.mark.databases("sqlite")


@pytest.mark.long
def test_the_page_follows_a_batch_from_its_claim_to_its_rescue(app: Flask) -> None:
    client = app.test_client()
    form = {"draft": str(uuid.uuid4()), "subject": "<b>News</b>", "text": "t", "readers": "30"}
    client.post("/newsletter", data=form)

    def page() -> str:
        """Return what the page says; its script's numbers say the same."""
        numbers = client.get("/newsletter/1/progress").json
        text = client.get("/newsletter/1").text
        assert numbers is not None
        assert numbers["headline"] in text
        assert "<b>News" not in text
        return str(numbers["headline"] + numbers["detail"] + numbers["html"])

    assert "wait for the next sweep" in page()
    with app.app_context():
        database, term = outbox._runtime.database, outbox._runtime.settings.lease
    [made] = claim_batch(database, Priority.BULK, 100, lease_seconds=term)
    assert "No worker has taken the batches" in page()
    start(database, made.token, lease_seconds=term, worker="<i>host:1")
    with app.app_context():
        ids = sorted(email.id for email in outbox.list(tag="newsletter-1"))[:20]
    advance(database, made.token, [], ids, worker="<i>host:1")
    assert "Only the 20 in open windows could come into doubt" in page()
    assert "&lt;i&gt;host:1" in page()
    database.offset += term * 0.9
    assert "gone silent" in page()
    assert "10 had surely not left" in page()
    database.offset = 0
    with app.app_context():
        outbox.pause("bulk")
    client.post("/newsletter", data=form | {"draft": str(uuid.uuid4())})
    numbers = client.get("/newsletter/2/progress").json
    assert numbers is not None
    assert numbers["headline"] == "Sending is paused."


@pytest.mark.long
@pytest.mark.parametrize("policy", OnUnknown)
def test_the_page_counts_who_is_in_doubt_whether_it_is_sent_again_or_held(
    app: Flask, policy: OnUnknown
) -> None:
    client = app.test_client()
    form = {"draft": str(uuid.uuid4()), "subject": "News", "text": "t", "readers": "30"}
    client.post("/newsletter", data=form)
    with app.app_context():
        database = outbox._runtime.database
        settings = replace(outbox._runtime.settings, on_unknown=policy)
        ids = sorted(email.id for email in outbox.list(tag="newsletter-1"))[:20]
    [made] = claim_batch(database, Priority.BULK, 100, lease_seconds=settings.lease)
    start(database, made.token, lease_seconds=settings.lease, worker="host:1")
    advance(database, made.token, [], ids, worker="host:1")
    for _ in range(2):  # the first sweep only notes that the lease ran out
        database.offset += settings.lease + 1
        rescue(database, settings, random=lambda: 0.5)
    numbers = client.get("/newsletter/1/progress").json
    assert numbers is not None
    assert (numbers["in_doubt"], numbers["sent"]) == (20, 0)


@pytest.mark.long
def test_an_issue_with_fields_that_nobody_fills_in_is_not_posted(app: Flask) -> None:
    form = {
        "draft": str(uuid.uuid4()),
        "subject": "News",
        "text": "Dear {{ name }}",
        "readers": "3",
    }
    answer = app.test_client().post("/newsletter", data=form)
    assert answer.status_code == 400
    assert "fields: are missing for {{ name }} in line " in answer.text
    with app.app_context():
        assert outbox.list().emails == ()


@pytest.mark.long
def test_the_page_of_an_issue_that_was_cancelled_says_so(app: Flask) -> None:
    client = app.test_client()
    form = {"draft": str(uuid.uuid4()), "subject": "News", "text": "t", "readers": "3"}
    client.post("/newsletter", data=form)
    with app.app_context():
        outbox.cancel(tag="newsletter-1")
        db.session.commit()
    page = client.get("/newsletter/1").text
    assert ("3 cancelled." in page, "is sent" in page) == (True, False)
    with app.app_context():  # as a purge does, when the retention is over
        db.session.execute(delete(db.metadata.tables["outbox_email"]))
        db.session.commit()
    assert "3 removed after they had ended." in client.get("/newsletter/1").text


@pytest.mark.long
def test_only_the_demo_s_visitors_and_staff_may_post_an_issue_and_see_it(app: Flask) -> None:
    client = app.test_client()
    form = {"draft": str(uuid.uuid4()), "subject": "News", "text": "t", "readers": "3"}
    paths = ("/newsletter", "/newsletter/1", "/newsletter/1/progress")
    assert "every email stays on this machine" in client.get("/").text

    def answers(auth: tuple[str, str] | None = None) -> list[int]:
        """Return the statuses of each page, and of the attempt to post an issue."""
        pages = [client.get(path, auth=auth).status_code for path in paths]
        return [client.post("/newsletter", data=form, auth=auth).status_code, *pages]

    del app.config["DEMO_INBOX"]
    assert answers() == [404] * 4
    shop = client.get("/").text
    assert ("/newsletter" in shop, "every email stays" in shop) == (False, False)
    app.config["DASHBOARD_PASSWORD"] = "horse staple"
    assert answers() == answers(("staff", "guessed")) == [401] * 4
    with app.app_context():
        assert outbox.list().emails == ()
    client.post("/newsletter", data=form, auth=("staff", "horse staple"))
    assert answers(("staff", "horse staple")) == [303, 200, 200, 200]
    assert "/newsletter" in client.get("/").text
