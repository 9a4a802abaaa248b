"""A number in an address that no row can have: the dashboard says so by a page of its own."""

from __future__ import annotations

import pytest

from tests.integration.dashboard.desk import Desk, whole

pytestmark = pytest.mark.each_database

NUMBERS = {"0": "0", "2^63-1": str(2**63 - 1), "2^63": str(2**63), "5000 digits": "9" * 5000}
PATHS = ("/messages/{}", "/messages/{}/html", "/jobs/{}", "/jobs/{}/now")


@pytest.mark.matrix
@pytest.mark.parametrize("number", NUMBERS)
def test_a_page_of_nothing(desk: Desk, number: str) -> None:
    desk.shop.enqueue()
    for path in PATHS:
        page = desk.get(path.format(NUMBERS[number]), 404)
        assert "There is nothing here" in page.text, path


@pytest.mark.long
@pytest.mark.parametrize("number", ["2^63-1", "2^63", "5000 digits"])
def test_an_attachment_or_an_act_of_nothing(desk: Desk, number: str) -> None:
    kept, path = desk.enqueue(whole()), "/messages/{}/files/{}"
    desk.get(path.format(kept, 0))
    assert "There is nothing here" in desk.get(path.format(kept, NUMBERS[number]), 404).text
    act = f"/messages/{NUMBERS[number]}/cancel"
    done = desk.post(act, f"/messages/{kept}").headers["Location"].removeprefix("/outbox")
    assert "There is nothing here" in desk.get(done, 404).text
    act = f"/jobs/{NUMBERS[number]}/stop"
    assert "There is nothing here" in desk.post(act, f"/messages/{kept}", 404).text
    assert desk.shop.statuses() == ["pending"]


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_in_a_query_fails_no_page(desk: Desk, number: str) -> None:
    desk.shop.enqueue()
    for path in ("/messages", "/messages/1", "/audit", "/jobs", "/held", "/newsletters"):
        for name in ("before", "after", "copy_of"):
            page = desk.client.get(f"/outbox{path}", query_string={name: NUMBERS[number]})
            assert page.status_code in (200, 400, 404), (path, name, page.text)
            assert "<title>" in page.text
