"""The page of the suppression list promises no more than the list says."""

from __future__ import annotations

import pytest

from tests.integration.dashboard.desk import Desk
from tests.support.shop.shop import message

pytestmark = pytest.mark.databases("sqlite", "postgresql")


def test_the_list_tells_that_a_person_was_erased(desk: Desk) -> None:
    desk.shop.outbox.erase("Ada@customers.example")
    assert "People who were erased are not on it" in desk.get("/suppressed").text
    told = "was erased: what is enqueued for it ends suppressed"
    for name, is_told in (("ada", True), ("bob", False)):
        page = desk.get("/suppressed", address=f"{name}@Customers.example").text
        assert (f"{name}@Customers.example {told}" in page) is is_told
        assert f"The list stops no message to {name}@Customers.example" in page
    page = desk.followed("/suppressed/add", "/suppressed", new="ada@customers.example")
    assert told in page
    assert "is on the list." in page
    desk.shop.outbox.readmit("ada@customers.example")
    assert told not in desk.get("/suppressed", address="ada@customers.example").text


ADDRESS = "a@customers.example"


@pytest.mark.long
def test_no_url_names_an_address_that_is_added_or_removed(desk: Desk) -> None:
    """Web servers log the URLs. The page that follows names it all the same."""
    message_page = f"/messages/{desk.enqueue(message())}"
    for act, page, told in (
        ("/suppressed/add", "/suppressed", "is on the list."),
        ("/suppressed/remove", "/suppressed", "was taken off the list."),
        ("/suppressed/remove", "/suppressed", "is not on the list any more."),
        (f"{message_page}/suppress", message_page, "is on the list."),
        ("/suppressed/add", "/suppressed", "was on the list already."),
    ):
        location = desk.post(act, page, new=ADDRESS, address=ADDRESS).headers["Location"]
        assert "customers" not in location
        shown = desk.client.get(location).text
        assert f"{ADDRESS} {told}" in shown
        assert f'name="address" value="{ADDRESS}"' in shown
        assert "is on the list" not in desk.get("/suppressed").text
    assert desk.client.get(location).text == shown  # as when it is loaded again


def test_only_whoever_did_it_is_told_and_no_text_of_another(desk: Desk) -> None:
    location = desk.post("/suppressed/add", "/suppressed", new=ADDRESS).headers["Location"]
    desk.who = "bob"
    assert "is on the list" not in desk.client.get(location).text
    desk.client.set_cookie("outbox_told", "forged", path="/outbox/suppressed")
    desk.who = "ada"
    assert "is on the list" not in desk.client.get(location).text
