"""An erased address is recognized in a sender, a key, a tag or a reply, however it stands there."""

from __future__ import annotations

import pytest

from outbox.store.erasure.placeholder import names

ADA = "Ada@customers.example"


@pytest.mark.parametrize(
    "text", ["welcome-ada@CUSTOMERS.example", "bounce+ada=customers.example@shop.example"]
)
def test_an_address_is_found(text: str) -> None:
    assert names(text, ADA)


@pytest.mark.parametrize("text", [None, "", "bob@customers.example", "ada=elsewhere.example"])
def test_another_one_is_not(text: str | None) -> None:
    assert not names(text, ADA)
