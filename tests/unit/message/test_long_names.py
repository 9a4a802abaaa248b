"""A long name in an `EmailMessage`, which a visitor may have chosen, becomes no address."""

from __future__ import annotations

import email
from contextlib import suppress
from email import policy
from email.headerregistry import Address, Group
from email.message import EmailMessage
from email.utils import getaddresses
from typing import Any

import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.render import render

LIMITS: dict[str, Any] = {"send_at": None, "max_size": 10**6, "split_size": 10**6}
NAMES = [
    "Ada, boss@evil.example, from the accounts department of Customers Incorporated",
    "Ada <boss@evil.example>, from the accounts department of Customers Incorporated",
    "Team: a@evil.example, b@evil.example; of the accounts department of the Customers",
    'The "accounts" \\ department (in Berlin) of Customers Incorporated, and of nobody else',
    "x" * 100 + ", boss@evil.example",
]
FIELDS = ["From", "To", "Cc", "Reply-To", "Resent-From"]
EVIL = NAMES[0]


def message(field: str, *people: Any) -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "a@b.example", "c@d.example", "s"
    made.set_content("Hello.\n")
    del made[field]
    made[field] = people
    return made


def seen(made: EmailMessage, field: str) -> list[tuple[str, str]]:
    """Return the people as a reader sees them who takes a name in quotes as it is."""
    content = render(made, **LIMITS).content
    assert max(map(len, content.split(b"\r\n"))) <= 998
    raw = email.message_from_bytes(content, policy=policy.compat32)[field]
    return getaddresses([raw.replace("\r\n", "")])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("field", FIELDS)
def test_a_long_name_stays_one_name(field: str, name: str) -> None:
    made = message(field, Address(name, "ada", "customers.example"))
    assert seen(made, field) == [(name, "ada@customers.example")]


def test_other_people_beside_it_stay_who_they_are() -> None:
    beside = Address("Jörg, the long one of the accounts department of Customers", "j", "b.example")
    made = message("To", Address("", "x", "y.example"), beside, Address(EVIL, "ada", "c.example"))
    read = [address for _, address in seen(made, "To")]
    assert read == ["x@y.example", "j@b.example", "ada@c.example"]
    found = email.message_from_bytes(render(made, **LIMITS).content, policy=policy.default)
    assert [one.display_name for one in found["To"].addresses] == ["", beside.display_name, EVIL]


def signed(made: EmailMessage) -> EmailMessage:
    made["DKIM-Signature"] = "v=1; a=rsa-sha256; b=x"
    return made


ADA = Address("", "ada", "customers.example")
LONG = Address(EVIL, "ada", "customers.example")
LEFT_TO_CPYTHON = {
    "a name of a line": message("To", Address("x" * 960 + ",y", "ada", "customers.example")),
    "a name in a group": message("To", Group("Team", (LONG,))),
    "a group's name": message("To", Group(EVIL, (ADA,))),
    "signed": signed(message("To", LONG)),
}


@pytest.mark.parametrize("case", LEFT_TO_CPYTHON)
def test_what_cpython_must_write_is_right_or_refused(case: str) -> None:
    """Nothing here writes groups, and a signature is over what CPython wrote."""
    with suppress(InvalidMessage):  # in the versions of CPython that drop quotes
        content = render(LEFT_TO_CPYTHON[case], **LIMITS).content
        found = email.message_from_bytes(content, policy=policy.default)
        assert [one.addr_spec for one in found["To"].addresses] == ["ada@customers.example"]


def test_a_group_with_short_names_stays_one() -> None:
    team = [Address(f"Doe, Jane {n}", f"jane{n}", "customers.example") for n in range(6)]
    made = message("To", Group("Team", tuple(team)))
    found = email.message_from_bytes(render(made, **LIMITS).content, policy=policy.default)
    assert found["To"].groups == made["To"].groups
