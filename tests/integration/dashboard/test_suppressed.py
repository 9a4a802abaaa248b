"""The page of the suppression list promises no more than the list says."""

from __future__ import annotations

import pytest

from tests.integration.dashboard.desk import Desk

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
