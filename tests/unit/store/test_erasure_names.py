"""An erased address is recognized in a sender, a key, a tag or a reply, however it stands there."""

from __future__ import annotations

import pytest

from outbox.domain.header.address import check_address
from outbox.store.erasure.naming import names, stands_in

ADA = "Ada@customers.example"


@pytest.mark.parametrize(
    "text",
    [
        "ada@customers.example",
        "welcome-ada@CUSTOMERS.example",
        "order_ada@customers.example_17",
        "ada@customers.example-17",
        "17:ada@customers.example.",
        "ada@customers.example.17",
        "<ada@customers.example>",
        "no ada@customers.example, she left",
        "madada@customers.example,ada@customers.example",
        "bounce+ada=customers.example@shop.example",
        "bounce=ada=customers.example@shop.example",
        "bounce-ada=customers.example@shop.example",
    ],
)
def test_an_address_is_found(text: str) -> None:
    assert names(text, ADA)


@pytest.mark.parametrize("text", [None, "", "bob@customers.example", "ada=elsewhere.example"])
def test_another_one_is_not(text: str | None) -> None:
    assert not names(text, ADA)


@pytest.mark.parametrize(
    "text",
    [
        "jada@customers.example",
        "j.ada@customers.example",
        "éada@customers.example",
        "7ada@customers.example",
        "ada@customers.example.au",
        "ada@customers.example-mail.de",
        "ada@customers.examples",
        "ada@customers.example.xn--p1ai",
        "bounce+jada=customers.example@shop.example",
        "bounce+ada=customers.example.au@shop.example",
    ],
)
def test_part_of_another_one_is_another_one(text: str) -> None:
    assert not names(text, ADA)


def test_an_address_without_a_top_level_domain_is_found() -> None:
    assert names("to root@localhost", "root@localhost")
    assert names("root@[192.0.2.1], bounced", "root@[192.0.2.1]")


@pytest.mark.parametrize(
    "text",
    [
        "welcome-ada@bücher.example",
        "welcome-ada@BÜCHER.example",
        "welcome-ada@bu\u0308cher.example",
        "welcome-ada@xn--bcher-kva.example",
        "bounce+ada=bücher.example@shop.example",
    ],
)
def test_an_international_domain_is_found_in_both_ways_to_write_it(text: str) -> None:
    assert names(text, check_address("Ada@bücher.example", "address"))
    assert not names(text, "ada@bucher.example")


def test_a_domain_that_is_no_international_name_is_found_as_it_is() -> None:
    assert names("to ada@xn--0.example", "ada@xn--0.example")


@pytest.mark.parametrize(
    "text",
    [
        "order-ada@customers.example",
        "order.ada@customers.example",
        "orderada@customers.example",
        "'ada@customers.example'",
        "ada@CUSTOMERS.example.pdf",
        "bounce.ada=customers.example@shop.example",
    ],
)
def test_in_a_text_of_this_person_it_is_found_whatever_is_written_beside_it(text: str) -> None:
    assert stands_in(text, ADA)
    assert not stands_in(text, "bob@customers.example")


@pytest.mark.parametrize("text", [None, "", "ada", "ada=elsewhere.example"])
def test_what_does_not_have_it_does_not_name_it_there_either(text: str | None) -> None:
    assert not stands_in(text, ADA)


def test_a_longer_address_that_is_known_to_be_another_persons_is_not_this_one() -> None:
    others = ("J.Ada@customers.example", ADA)
    assert not stands_in("order.j.ada@customers.example", ADA, others=others)
    assert not stands_in("b+j.ada=customers.example@shop.example", ADA, others=others)
    assert stands_in("order.j.ada@customers.example.ada@customers.example", ADA, others=others)
    assert stands_in("order.ada@customers.example", ADA, others=("da@customers.example",))
