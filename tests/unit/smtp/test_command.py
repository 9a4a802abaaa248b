"""Command lines: nothing that reaches the wire can hold a second command."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.transaction import Envelope
from outbox.smtp.command import CommandError, command, lacking, mail_line, rcpt_lines


@given(st.text(), st.booleans())
def test_a_command_is_one_line_or_refused(text: str, utf8: bool) -> None:
    try:
        line = command("RCPT", text, utf8=utf8)
    except CommandError:
        return
    assert line.endswith(b"\r\n")
    assert not {b"\r", b"\n", b"\0"} & {bytes([octet]) for octet in line[:-2]}


@pytest.mark.parametrize("evil", ["a\rb", "a\nb", "a\0b", "\xfc", "\ud800"])
def test_control_characters_and_unagreed_letters_are_refused(evil: str) -> None:
    with pytest.raises(CommandError) as raised:
        command("MAIL", evil)
    assert evil not in str(raised.value)


@pytest.mark.parametrize("address", ["a@b.example", "", '"a b"@c.example', '"<a>\\""@c.example'])
def test_an_address_stands_in_brackets_as_it_is(address: str) -> None:
    envelope = Envelope(sender=address, recipients=(address,))

    assert mail_line(envelope, 10, {}) == f"MAIL FROM:<{address}>\r\n".encode()
    assert rcpt_lines(envelope, {}) == [f"RCPT TO:<{address}>\r\n".encode()]


@pytest.mark.parametrize("address", ["a b@c.example", "a>@c", "<a@c", 'a"b@c', '"a@c', "a\\@c"])
def test_an_address_that_could_leave_its_brackets_is_refused(address: str) -> None:
    with pytest.raises(CommandError):
        rcpt_lines(Envelope(sender="", recipients=(address,)), {})


@pytest.mark.parametrize("limit", ["", "0", "1000", "unlimited", "-5", "\xb2"])
def test_a_size_limit_counts_only_where_it_is_a_positive_number(limit: str) -> None:
    envelope = Envelope(sender="", recipients=("a@b",))

    assert lacking(envelope, 1000, {"size": limit}) == ""
    assert lacking(envelope, 1001, {"size": "1000"}) != ""


@pytest.mark.parametrize("option", ["REQUIRETLS", "requiretls", "BY=120;R", "BY=0;rt"])
def test_what_must_be_kept_on_the_way_is_lacking_where_it_is_not_offered(option: str) -> None:
    envelope = Envelope(sender="", recipients=("a@b",), mail_options=("RET=HDRS", option))
    word = option.partition("=")[0].upper()

    assert word in lacking(envelope, 10, {"dsn": "", "size": "1000"})
    assert lacking(envelope, 10, {"requiretls": "", "deliverby": ""}) == ""


@pytest.mark.parametrize(
    "option", ["RET=HDRS", "ENVID=1", "MT-PRIORITY=3", "BY=120;N", "BY=-5;NT", "HOLDFOR=60"]
)
def test_what_may_be_left_out_is_left_out_where_it_is_not_offered(option: str) -> None:
    envelope = Envelope(sender="", recipients=("a@b",), mail_options=(option,))

    assert lacking(envelope, 10, {}) == ""
    assert mail_line(envelope, 10, {}) == b"MAIL FROM:<>\r\n"


@pytest.mark.parametrize("option", ["HOLDFOR=60", "HOLDUNTIL=2026-12-24T18:00:00Z"])
def test_a_later_release_is_asked_of_the_extension_that_has_it(option: str) -> None:
    envelope = Envelope(sender="", recipients=("a@b",), mail_options=(option,))

    line = mail_line(envelope, 10, {"futurerelease": "86400 2027-01-01T00:00:00Z"})
    assert line == f"MAIL FROM:<> {option}\r\n".encode()
