"""What the assertions let pass, and the text of their failures."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.testing import OutboxTester
from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.databases("sqlite")


def enqueue(shop: Shop, *to: str, **options: Any) -> int:
    words = {name: options.pop(name) for name in ("subject", "text") if name in options}
    with shop.session() as session:
        email = shop.outbox.enqueue(message(*to, **words), session=session, **options)
        session.commit()
    return email.id


def failure(tester: OutboxTester, **wanted: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        tester.assert_enqueued(**wanted)
    return str(raised.value)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"to": "ADA@x.example"},
        {"to": ["bob@x.example", "ada@x.example"]},
        {"subject": "Order 7"},
        {"subject_contains": "7"},
        {"tag": "order"},
        {"key": "order-7"},
        {"text_contains": "12.50 EUR"},
        {"to": "ada@x.example", "subject": "Order 7", "tag": "order", "key": "order-7"},
    ],
    ids=str,
)
def test_an_email_that_is_as_wanted_passes(
    shop: Shop, tester: OutboxTester, wanted: dict[str, Any]
) -> None:
    people = ("ada@x.example", "bob@x.example")
    text = "Total:\n12.50 EUR"
    email = enqueue(shop, *people, subject="Order 7", text=text, tag="order", key="order-7")
    if wanted:
        enqueue(shop, "c@x.example", subject="Hello", text="Other")
    assert tester.assert_enqueued(**wanted).id == email
    assert [one.id for one in tester.emails(**wanted)] == [email]
    with pytest.raises(AssertionError, match=r"^1 email was enqueued"):
        tester.assert_nothing_enqueued(**wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"to": ["ada@x.example", "bob@x.example"]},
        {"subject": "Order"},
        {"subject_contains": "order"},
        {"tag": "Order"},
        {"key": "order"},
        {"text_contains": "Thanks"},
        {"html_contains": "Thank"},
    ],
    ids=str,
)
def test_an_email_that_differs_does_not_pass(
    shop: Shop, tester: OutboxTester, wanted: dict[str, Any]
) -> None:
    with shop.session() as session:
        mail = message("ada@x.example", Cc="cc@x.example")
        shop.outbox.enqueue(mail, session=session, tag="order", key="order-7")
        session.commit()
    assert failure(tester, **wanted).startswith("no email was enqueued with ")
    tester.assert_nothing_enqueued(**wanted)


def test_a_failure_shows_the_nearest_misses_first_and_field_by_field(
    shop: Shop, tester: OutboxTester
) -> None:
    far = enqueue(shop, "bob@y.example", subject="Welcome", text="Hello!")
    near = enqueue(shop, "ada@x.example", subject="Your orders", text="Total: 12,50", tag="order")
    assert failure(
        tester, to="ada@x.example", subject="Your order", tag="order", text_contains="l: 12.50"
    ) == (
        "no email was enqueued with to='ada@x.example', subject='Your order', tag='order',"
        " text_contains='l: 12.50'\n"
        "\n"
        "2 emails were enqueued. The nearest (- wanted, + found):\n"
        "\n"
        f"  email {near} (pending) to ada@x.example: 'Your orders'\n"
        "    subject:\n"
        "      - 'Your order'\n"
        "      + 'Your orders'\n"
        "      ?            +\n"
        "    text_contains:\n"
        "      - 'l: 12.50'\n"
        "      ?       ^\n"
        "      + 'l: 12,50'\n"
        "      ?       ^\n"
        "\n"
        f"  email {far} (pending) to bob@y.example: 'Welcome'\n"
        "    to:\n"
        "      - ada@x.example\n"
        "      + bob@y.example\n"
        "    subject:\n"
        "      - 'Your order'\n"
        "      + 'Welcome'\n"
        "    tag:\n"
        "      - 'order'\n"
        "      + None\n"
        "    text_contains:\n"
        "      - 'l: 12.50'\n"
        "      + 'Hello!'"
    )


def test_a_failure_shows_three_of_many(shop: Shop, tester: OutboxTester) -> None:
    for number in range(5):
        enqueue(shop, subject=f"Order {number}{number}")
    text = failure(tester, subject="Order 3")
    assert text.count("(pending)") == 3
    assert "'Order 33'" in text.split("subject:")[1]  # the most alike


def test_a_failure_without_emails_says_what_was_discarded(shop: Shop, tester: OutboxTester) -> None:
    assert failure(tester) == "no email was enqueued"
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
    assert failure(tester, tag="order") == (
        "no email was enqueued with tag='order'\n"
        "1 email was discarded: the session was closed without a commit"
    )


def test_an_email_that_comes_twice_does_not_pass(shop: Shop, tester: OutboxTester) -> None:
    ids = [enqueue(shop, "ada@x.example", subject="Hi") for _ in range(2)]
    assert failure(tester, subject="Hi") == (
        "2 emails were enqueued with subject='Hi', not 1:\n"
        f"  email {ids[0]} (pending) to ada@x.example: 'Hi'\n"
        f"  email {ids[1]} (pending) to ada@x.example: 'Hi'"
    )
    assert tester.assert_enqueued(subject="Hi", count=2).id == ids[0]
    assert failure(tester, count=3).startswith("2 emails were enqueued, not 3:\n")


def test_many_emails_are_not_all_listed(shop: Shop, tester: OutboxTester) -> None:
    with shop.session() as session:
        people = [f"r{number}@x.example" for number in range(25)]
        shop.outbox.enqueue_many(map(message, people), session=session)
        session.commit()
    with pytest.raises(AssertionError, match=r"\n  and 5 more$"):
        tester.assert_nothing_enqueued()


def test_a_wrong_call_is_told(tester: OutboxTester) -> None:
    with pytest.raises(TypeError, match="subjekt"):
        tester.assert_enqueued(subjekt="Hi")  # type: ignore[call-arg]
    for count in (0, None, "1", 1.5):
        with pytest.raises(ValueError, match="assert_nothing_enqueued"):
            tester.assert_enqueued(count=count)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "filters",
    [{"to": None}, {"to": ""}, {"to": []}, {"subject": None}, {"tag": None}, {"text_contains": ""}],
)
def test_a_filter_that_any_email_would_match_is_refused(
    shop: Shop, tester: OutboxTester, filters: Any
) -> None:
    shop.enqueue()
    for ask in (tester.emails, tester.assert_enqueued, tester.assert_nothing_enqueued):
        with pytest.raises(ValueError, match="would match any email"):
            ask(**filters)


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"to": 5}, "to=5 is no address without a name"),
        ({"to": [5]}, "to=5 is no address without a name"),
        ({"subject_contains": 5}, "subject_contains=5 must be text"),
        ({"text_contains": b"Hi"}, "text_contains=b'Hi' must be text"),
        ({"tag": 17}, "tag=17 must be text"),
        ({"key": 17}, "key=17 must be text"),
    ],
)
def test_a_filter_of_another_type_is_refused(
    shop: Shop, tester: OutboxTester, filters: Any, told: str
) -> None:
    shop.enqueue()
    for ask in (tester.emails, tester.assert_enqueued, tester.assert_nothing_enqueued):
        with pytest.raises(ValueError, match=told):
            ask(**filters)


def test_addresses_that_can_be_read_once_are_a_filter_like_any_other(
    shop: Shop, tester: OutboxTester
) -> None:
    enqueue(shop, "ada@x.example")
    people = ["bob@x.example"]
    for once in ((one for one in people), map(str.lower, people), {"bob@x.example": 1}.keys()):
        given: Any = once
        with pytest.raises(AssertionError, match=r"with to=\('bob@x.example',\)"):
            tester.assert_enqueued(to=given)
    there: Any = iter(["ada@x.example"])
    with pytest.raises(AssertionError, match=r"^1 email was enqueued"):
        tester.assert_nothing_enqueued(to=there)
    for ask in (tester.emails, tester.assert_enqueued, tester.assert_nothing_enqueued):
        nobody: Any = iter(())
        with pytest.raises(ValueError, match="would match any email"):
            ask(to=nobody)


@pytest.mark.parametrize("to", ["jo@bücher.example", "JO@xn--bcher-kva.example"])
def test_an_international_domain_is_the_same_in_each_of_its_forms(
    shop: Shop, tester: OutboxTester, to: str
) -> None:
    email = enqueue(shop, "jo@bücher.example")
    assert tester.assert_enqueued(to=to).id == email
    with pytest.raises(AssertionError):
        tester.assert_nothing_enqueued(to=to)


@pytest.mark.parametrize(
    "to", ["Ada <ada@x.example>", ("Ada", "ada@x.example"), "ada@x.example ", "ada", [""]], ids=str
)
def test_what_is_no_bare_address_is_no_filter(shop: Shop, tester: OutboxTester, to: Any) -> None:
    enqueue(shop, "ada@x.example")
    for ask in (tester.emails, tester.assert_enqueued, tester.assert_nothing_enqueued):
        with pytest.raises(ValueError, match="is no address without a name"):
            ask(to=to)


@pytest.mark.parametrize("name", ["Cc", "Bcc"])
def test_who_gets_a_copy_has_not_been_spared(shop: Shop, tester: OutboxTester, name: str) -> None:
    with shop.session() as session:
        made = message("ada@x.example")
        made[name] = "boss@x.example"
        shop.outbox.enqueue(made, session=session)
        session.commit()
    assert tester.emails(to="boss@x.example") == ()
    with pytest.raises(AssertionError, match=r"^1 email was enqueued"):
        tester.assert_nothing_enqueued(to="boss@x.example")
    tester.assert_nothing_enqueued(to="bob@x.example")


def test_an_email_that_was_redacted_may_have_had_any_text(shop: Shop, tester: OutboxTester) -> None:
    enqueue(shop, "ada@x.example", subject="Your code", text="1234", redact="when sent", tag="code")
    tester.drain()
    assert tester.assert_enqueued(to="ada@x.example", tag="code").is_redacted
    assert tester.emails(subject="Your code") == ()
    for wanted in ({"subject": "Your code"}, {"text_contains": "1234"}, {"to": "ada@x.example"}):
        with pytest.raises(AssertionError, match=r"^1 email was enqueued"):
            tester.assert_nothing_enqueued(**wanted)  # type: ignore[arg-type]
    tester.assert_nothing_enqueued(subject="Your code", to="bob@x.example")
    tester.assert_nothing_enqueued(subject="Your code", tag="other")
