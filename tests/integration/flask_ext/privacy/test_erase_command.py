"""`flask outbox erase` and `readmit`, and what they need."""

from __future__ import annotations

import pytest

from outbox.domain.errors import ConfigurationError
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.watching.traces import traces

pytestmark = pytest.mark.one_database("postgresql")

ADA = "ada@customers.example"


@pytest.fixture
def shop(shops: Shops) -> Shop:
    return shops.open(SECRET_KEY="a secret")


def test_it_asks_first_and_tells_what_it_has_done(shop: Shop) -> None:
    run = runner(shop)
    shop.enqueue(ADA)
    shop.outbox.suppress(ADA, by="a person")
    assert "cannot be brought back" in run("erase", ADA, code=1).output
    assert shop.statuses() == ["pending"]
    told = run("erase", ADA, "--yes").output.splitlines()
    assert told[0] == "1 email is erased, 1 of them not sent yet"
    assert told[1] == "a tombstone stands in the place of the suppression list's entry"
    assert run("erase", ADA, "--yes").output == "0 emails are erased\n"
    assert run("readmit", ADA).output == "may get email again\n"
    assert run("readmit", ADA).output == "was not erased\n"
    acts = [(entry.action, entry.result) for entry in reversed(shop.outbox.audit())]
    assert {action for action, _ in acts[1:5]} == {"erase"}
    assert [result for _, result in acts[1:5]] == [
        "begun",
        "1 erased, 0 left",
        "begun",
        "0 erased, 0 left",
    ]
    assert acts[5:] == [("readmit", "readmitted"), ("readmit", "was not erased")]
    assert traces(shop, ADA) == set()


def test_the_audit_forgets_a_tag_in_which_the_address_stands(shop: Shop) -> None:
    run, tag = runner(shop), f"welcome {ADA.upper()}"
    shop.enqueue(ADA, tag=tag)
    run("cancel", "--tag", tag)
    shop.enqueue("bob@customers.example", tag="bob@customers.example")
    run("cancel", "--tag", "bob@customers.example")
    assert f"cancel tag={tag}: " in run("audit").output.replace(" email 1", "")
    run("erase", ADA, "--yes")
    told = [(one.action, one.what.get("tag")) for one in reversed(shop.outbox.audit())]
    assert told[:2] == [("cancel", "erased@invalid"), ("cancel", "bob@customers.example")]
    assert traces(shop, ADA) == set()


def test_it_exits_with_1_and_names_the_emails_that_are_left(shop: Shop) -> None:
    email = shop.enqueue(ADA)
    shop.sending(email.id)
    told = runner(shop)("erase", ADA, "--yes", code=1).output
    assert f"email {email.id} is left: it is being sent" in told


def test_without_a_secret_it_says_what_to_set_and_changes_nothing(shops: Shops) -> None:
    shop = shops.open()
    shop.enqueue(ADA)
    with pytest.raises(ConfigurationError, match="set OUTBOX_ERASE_KEY or SECRET_KEY"):
        shop.outbox.erase(ADA)
    assert "set OUTBOX_ERASE_KEY" in runner(shop)("erase", ADA, "--yes", code=1).output
    assert shop.statuses() == ["pending"]


@pytest.mark.long
def test_check_tells_if_the_secret_was_changed_and_the_former_one_helps(shops: Shops) -> None:
    shops.open(SECRET_KEY="former").outbox.erase(ADA)
    changed = "OUTBOX_ERASE_KEY, or SECRET_KEY in its place, was changed"
    assert changed in runner(shops.open(SECRET_KEY="new"))("check", code=1).output
    lacking = "neither OUTBOX_ERASE_KEY nor SECRET_KEY is set: people who were erased before would"
    assert lacking in runner(shops.open())("check", code=1).output
    assert changed not in runner(shops.open())("check", code=1).output
    mended = shops.open(SECRET_KEY="new", OUTBOX_ERASE_KEY="former")
    assert changed not in runner(mended)("check", code=1).output
    assert mended.outbox.readmit(ADA)
