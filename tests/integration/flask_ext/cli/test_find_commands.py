"""`flask outbox list`, `problems` and `index`: the same filters, for people and for scripts."""

from __future__ import annotations

import json

import pytest

from outbox import Status
from tests.support.shop.shell import parsed, runner, stuck
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.one_database("postgresql")


def test_a_list_goes_on_where_the_one_before_ended(shop: Shop) -> None:
    ids = [shop.enqueue(tag="t").id for _ in range(5)]
    run = runner(shop)
    found, after = list[int](), list[str]()
    for _ in range(3):
        done = run("list", "--tag", "t", "--limit", 2, "--json", *after)
        found += [json.loads(line)["id"] for line in done.stdout.splitlines()]
        after = done.stderr.removeprefix("more: ").split()
    assert found == ids[::-1]
    assert after == []


def test_every_filter_of_the_verb_is_an_option(shop: Shop) -> None:
    email = shop.enqueue("Ada@x.example", key="k", tag="t")
    shop.enqueue("bob@x.example")
    run = runner(shop)
    for words in (
        ["--recipient", "ada@x.example"],
        ["--message-id", email.message_id.strip("<>")],
        ["--subject", "ORDER", "--key", "k"],
        ["--tag", "t", "--status", "pending"],
        ["--tag", "t", "--since", "2000-01-01", "--until", "2999-01-01T12:00+02:00"],
        ["--tag", "t", "--since", "0001-01-01", "--until", "9999-12-31T23:59:59.999999"],
    ):
        assert "Ada@x.example" in run("list", *words).stdout
        assert "bob" not in run("list", *words).stdout
    assert run("list", "--since", "2999-01-01").output == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--recipient", "ada"], "'--recipient': an address has the form local-part@domain"),
        (["--recipient", "Ada <a@x.example>"], "'--recipient': give the address alone, without a"),
        (["--message-id", "a b"], "'--message-id': must be <left@right>"),
        (["--status", "expired"], "'--status': no index has expired; indexes serve recipient,"),
        (["--after", "x"], "'--after': must be the `next` of the page before"),
        (["--since", "yesterday"], "must be a time in ISO 8601, such as 2026-07-01"),
        (["--since", "2026-07-02", "--until", "2026-07-01"], "'--until': must be after since"),
        (["--subject", "\udcff"], "'--subject': must not contain control characters"),
        (["--limit", "10001"], "10001 is not in the range 1<=x<=10000"),
    ],
)
def test_a_wrong_filter_is_named_with_its_rule(shop: Shop, words: list[str], told: str) -> None:
    assert told in runner(shop)("list", *words, code=2).output


def test_problems_shows_groups_with_the_newest_reply(shop: Shop) -> None:
    run = runner(shop)
    assert run("problems").stdout == "nothing needs a person\n"
    stuck(shop, Status.FAILED)
    email_id = stuck(shop, Status.FAILED)
    first, second = run("problems").stdout.splitlines()
    assert first.split()[:2] == ["2", "failed"]
    assert first.endswith("customers.example  550 at dot of mx.example:25")
    assert second.strip() == f"no \ufffd such  (email {email_id})"
    (group,) = parsed(run("problems", "--json"))["groups"]
    assert (group["emails"], group["id"], group["code"]) == (2, email_id, 550)


def test_index_makes_old_emails_found(shops: Shops) -> None:
    email_id = shops.open(OUTBOX_SEARCH=[]).enqueue("ada@x.example").id
    run = runner(shops.open())
    assert run("list", "--recipient", "ada@x.example").output == ""
    assert "every email is indexed" in run("index").output
    assert f"{email_id}  pending" in run("list", "--recipient", "ada@x.example").output
