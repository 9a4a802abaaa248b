"""The shop's message is written once, and each test has its own."""

from __future__ import annotations

from tests.support.shop.shop import message


def test_what_a_test_changes_in_its_message_is_in_no_other() -> None:
    first, plain = message(), message().as_bytes()
    first["Reply-To"] = "help@shop.example"
    first.replace_header("Subject", "Order 2")
    first.add_attachment("Invoice", filename="invoice.txt")
    assert message().as_bytes() == plain
