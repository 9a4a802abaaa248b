"""The digests of settings tell which one differs, and nothing of its value."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from outbox.domain.config.agreement import differing, setting_digests
from outbox.domain.config.servers import servers_from_config
from outbox.domain.config.settings import Settings


def made(*, suppressed: bool = False, **config: Any) -> dict[str, str]:
    settings = Settings.from_config({k: v for k, v in config.items() if k.startswith("OUTBOX_")})
    return setting_digests(settings, servers_from_config(config, settings), suppressed=suppressed)


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({"OUTBOX_LEASE": 31}, ("OUTBOX_LEASE",)),
        ({"OUTBOX_SLOTS": 4, "OUTBOX_RATE": "5/s"}, ("OUTBOX_RATE", "OUTBOX_SLOTS")),
        ({"OUTBOX_DOMAIN_RATES": {"x.example": "5/s"}}, ("OUTBOX_DOMAIN_RATES",)),
        ({"OUTBOX_REDIRECT_TO": "dev@x.example"}, ("OUTBOX_REDIRECT_TO",)),
        ({"MAIL_SERVER": "mx.example"}, ("MAIL_… (the SMTP server)",)),
        ({"suppressed": True}, ("MAIL_SUPPRESS_SEND",)),
        ({"OUTBOX_HELO_NAME": "a.example", "OUTBOX_NUDGE": False}, ()),
    ],
)
def test_settings_that_differ_are_named_unless_each_process_may_have_its_own(
    config: dict[str, Any], names: tuple[str, ...]
) -> None:
    assert differing(made(), made(**config)) == names


def test_the_same_settings_agree_in_whatever_order_they_were_given() -> None:
    rates = {"a.example": "5/s", "b.example": "6/s"}
    turned = dict(reversed(rates.items()))
    assert made(OUTBOX_DOMAIN_RATES=rates) == made(OUTBOX_DOMAIN_RATES=turned)


def test_a_setting_that_another_version_lacks_does_not_differ() -> None:
    ours = made()
    older = {key: digest for key, digest in ours.items() if key != "OUTBOX_LEASE"}
    assert differing(ours, older | {"OUTBOX_GONE": "0"}) == ()


def test_a_password_has_no_part_in_a_digest_and_no_secret_has_one() -> None:
    server: dict[str, Any] = {
        "MAIL_SERVER": "mx.example",
        "MAIL_USE_TLS": True,
        "MAIL_USERNAME": "jo",
    }
    assert made(**server, MAIL_PASSWORD="one") == made(**server, MAIL_PASSWORD="two")
    secret = {f"OUTBOX_{f.name.upper()}" for f in dataclasses.fields(Settings) if not f.repr}
    assert secret
    assert secret.isdisjoint(made())
