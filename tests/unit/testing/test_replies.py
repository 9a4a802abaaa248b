"""Which of the script's replies the server gives."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.domain.delivery.transaction import Phase
from outbox.testing import Replies


def ask(replies: Replies, *recipients: str, phase: Phase = Phase.RCPT) -> str | None:
    return replies.find(phase, recipients, "250 ok")


def test_without_a_rule_all_is_taken() -> None:
    assert ask(Replies(), "a@x.example") == "250 ok"


def test_a_rule_is_for_its_step_and_its_recipient() -> None:
    replies = Replies()
    replies.at("RCPT", 550, "5.1.1 no such user", to="A@x.example")
    assert ask(replies, "a@X.example") == "550 5.1.1 no such user"
    assert ask(replies, "b@x.example") == "250 ok"
    assert ask(replies, "a@x.example", phase=Phase.DOT) == "250 ok"


def test_behind_rcpt_a_rule_is_for_each_email_of_its_recipient() -> None:
    replies = Replies()
    replies.at("dot", 554, to="a@x.example")
    assert ask(replies, "b@x.example", "a@x.example", phase=Phase.DOT) == "554"
    assert ask(replies, "b@x.example", phase=Phase.DOT) == "250 ok"


def test_the_last_rule_that_fits_counts_until_it_is_used_up() -> None:
    replies = Replies()
    replies.at("RCPT", 550, "gone")
    replies.at("RCPT", 451, "later", times=1)
    replies.hang_up_at("RCPT", to="a@x.example", times=2)
    assert [ask(replies, "a@x.example") for _ in range(4)] == [None, None, "451 later", "550 gone"]
    replies.clear()
    assert ask(replies, "a@x.example") == "250 ok"


@pytest.mark.parametrize(
    ("step", "code", "options", "told"),
    [
        ("EHLO", 550, {}, "one of MAIL, RCPT, DATA, DOT, not 'EHLO'"),
        ("RCPT", 250, {}, "from 400 to 599"),
        ("RCPT", 600, {}, "from 400 to 599"),
        ("RCPT", 550, {"text": "no\r\n250 ok"}, "one line"),
        ("RCPT", 550, {"text": "näh"}, "ASCII"),
        ("RCPT", 550, {"times": 0}, "from 1"),
        ("MAIL", 550, {"to": "a@x.example"}, "not known yet"),
        (None, 550, {}, "one of MAIL, RCPT, DATA, DOT, not None"),
        ("RCPT", "550", {}, "from 400 to 599"),
        ("RCPT", None, {}, "from 400 to 599"),
        ("RCPT", 550, {"text": None}, "one line"),
        ("RCPT", 550, {"times": "1"}, "from 1"),
        ("RCPT", 550, {"to": 5}, "to=5 is no address"),
    ],
)
def test_a_wrong_rule_is_refused(step: Any, code: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Replies().at(step, code, **options)


def test_a_recipient_is_meant_in_each_form_of_its_domain() -> None:
    replies = Replies()
    replies.at("RCPT", 550, to="jo@bücher.example")
    assert ask(replies, "jo@xn--bcher-kva.example") == "550"
    with pytest.raises(ValueError, match="is no address without a name"):
        replies.at("RCPT", 550, to="Jo <jo@x.example>")
