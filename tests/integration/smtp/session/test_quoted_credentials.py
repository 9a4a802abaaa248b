"""A server that quotes what we said at AUTH: the password comes to stand nowhere."""

from __future__ import annotations

import logging
from base64 import b64encode

import pytest

from outbox.worker.drain import drain
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import GREET, Script, ScriptedServer, Step, expect, serve
from tests.support.shop.shop import Shops

USER, PASSWORD = "jo", "hunter2hunter2"
SECRETS = (
    PASSWORD,
    b64encode(f"\0{USER}\0{PASSWORD}".encode()).decode(),
    b64encode(PASSWORD.encode()).decode(),
)

pytestmark = pytest.mark.databases("sqlite")


def offers(mechanism: str) -> Script:
    return (GREET, expect("EHLO", f"250-scripted.example\n250 AUTH {mechanism}"))


def quoting(reply: str) -> Step:
    """Answer a line of the client with a reply that holds it."""

    def step(dialogue: Dialogue) -> None:
        line = dialogue.line()
        dialogue.say(reply.replace("LINE", line).replace("PASSWORD", PASSWORD))

    return step


CASES: dict[str, tuple[Script, str]] = {
    "refused": ((*offers("PLAIN"), quoting("535 5.7.8 wrong: LINE")), "auth: 535 5.7.8"),
    "decoded": ((*offers("PLAIN"), quoting("535 5.7.8 no PASSWORD here")), "auth: 535 5.7.8"),
    "lines": ((*offers("PLAIN"), quoting("535-5.7.8 LINE\n535 5.7.8 PASSWORD")), "auth: 535"),
    "enhanced": ((*offers("PLAIN"), quoting("535 LINE")), "auth: 535"),
    "later": ((*offers("PLAIN"), quoting("454 4.7.0 try LINE later")), "auth: 454 4.7.0"),
    "closing": ((*offers("PLAIN"), quoting("421 4.7.0 LINE, good-bye")), "auth: 421 4.7.0"),
    "garbage": ((*offers("PLAIN"), quoting("LINE: what is this?")), "auth: "),
    "two codes": ((*offers("PLAIN"), quoting("535-5.7.8 LINE\nLINE")), "auth: "),
    "login": (
        (*offers("LOGIN"), expect("AUTH", "334 UGFzc3dvcmQ6"), quoting("535 5.7.8 wrong: LINE")),
        "auth: 535 5.7.8",
    ),
    "taken, and behind it quoted": (
        (*offers("PLAIN"), quoting("235 2.7.0 welcome\n500 5.5.1 what is LINE?"), serve),
        "auth: ",
    ),
}

WORDS = ("stats", "stats --json", "check", "check --json", "health", "health --json", "show 1")


@pytest.mark.parametrize("name", CASES)
def test_of_a_reply_to_auth_the_codes_are_kept_and_no_text(
    shops: Shops, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.DEBUG)
    script, kept = CASES[name]
    with ScriptedServer(script) as server:
        shop = shops.open(
            MAIL_PORT=server.port,
            MAIL_USERNAME=USER,
            MAIL_PASSWORD=PASSWORD,
            OUTBOX_CLEARTEXT_AUTH=True,
        )
        shop.enqueue()
        drain(shop.runtime)
        shop.runtime.disconnect()
    (breaker,) = shop.rows(shop.tables.breaker)
    assert breaker.reason.startswith(kept)
    run = shop.app.test_cli_runner().invoke
    said = [
        *(str(shop.rows(table)) for table in shop.tables.email.metadata.tables.values()),
        *(run(args=["outbox", *words.split()]).output for words in WORDS),
        caplog.text,
    ]
    for secret in SECRETS:
        assert not [text for text in said if secret in text]
