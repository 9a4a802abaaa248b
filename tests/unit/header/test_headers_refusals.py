"""Every header, name, address and file name that could begin another header is refused."""

from __future__ import annotations

import email
from email import policy
from email.header import Header
from email.message import EmailMessage, Message
from typing import Any

import pytest

from outbox.domain.errors import InvalidMessage
from outbox.domain.header.fields import addresses, check_headers, parse_addresses, written
from outbox.domain.message.render import RenderedMessage, render, render_shared

BREAKS = ["\r", "\n", "\r\n", "\0", "\x07", "\x1b", "\x7f", "\x85", "\x9f", "\u2028", "\u2029"]
NAMES = ["Subject", "From", "To", "Cc", "Bcc", "Reply-To", "Sender", "X-Own", "Message-ID", "Date"]
POLICIES = {"compat32": policy.compat32, "default": policy.default, "smtp": policy.SMTP}


def ready(message: Message[Any, Any]) -> RenderedMessage:
    return render(message, send_at=None, max_size=10**6, split_size=10**6)


def refused(message: Message[Any, Any]) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        ready(message)
    return caught.value


def legacy(**headers: str) -> Message[Any, Any]:
    message: Message[Any, Any] = Message()
    message["From"], message["To"] = "a@b.example", "c@d.example"
    for name, value in headers.items():
        del message[name.replace("_", "-")]
        message[name.replace("_", "-")] = value
    message.set_payload("hello")
    return message


def smuggled(name: str, value: str) -> EmailMessage:
    """Make a modern message with a header that the policy itself would have refused."""
    message = EmailMessage()
    message["From"], message["To"] = "a@b.example", "c@d.example"
    del message[name]
    message._headers.append((name, value))  # type: ignore[attr-defined]
    message.set_content("hello")
    return message


@pytest.mark.matrix
@pytest.mark.parametrize("control", BREAKS, ids=ascii)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("modern", [True, False])
def test_a_line_break_or_a_control_character_in_a_value_is_refused(
    name: str, control: str, modern: bool
) -> None:
    value = f"x@y.example{control}Bcc: evil@z.example"
    message = smuggled(name, value) if modern else legacy(**{name: value})
    error = refused(message)
    assert error.field == name
    assert error.rule == "must not contain control characters or line breaks"
    assert "evil" not in str(error)


@pytest.mark.parametrize("name", ["X Y", "X:Y", "Ü", "X\r\nBcc", "X\0", "", "X\u2028", "X\ud800"])
def test_a_header_name_that_is_no_name_is_refused(name: str) -> None:
    message = legacy()
    message[name] = "value"
    error = refused(message)
    assert error.field == "header"
    assert "RFC 5322" in error.rule


@pytest.mark.parametrize("name", ["Subject", "X-Own", "To"])
@pytest.mark.parametrize("modern", [True, False])
def test_a_lone_surrogate_is_refused_or_written_as_ascii(name: str, modern: bool) -> None:
    value = "x\ud800@y.example"
    assert refused(smuggled(name, value) if modern else legacy(**{name: value})).rule


@pytest.mark.parametrize("fold", ["\r\n ", "\n ", "\r\n\t", "\n  \t "])
def test_legal_folding_passes(fold: str) -> None:
    mail = ready(legacy(Subject=f"one{fold}two"))
    subject = email.message_from_bytes(mail.content, policy=policy.default)["Subject"]
    assert subject.split() == ["one", "two"]


@pytest.mark.parametrize("fold", ["\r\n", "\r\n \r\n", "\n\n x", "\n \n x", "\r x", "\r\n \u2028"])
def test_a_fold_that_would_end_the_header_block_is_refused(fold: str) -> None:
    assert refused(legacy(Subject=f"one{fold}two")).field == "Subject"


def test_the_headers_of_parts_are_checked_too() -> None:
    message = EmailMessage()
    message["From"], message["To"] = "a@b.example", "c@d.example"
    message.add_attachment(b"x", "application", "pdf", filename="a.pdf")
    part = next(message.iter_attachments())
    part._headers.append(("X-Own", "a\r\nBcc: evil@x.example"))  # type: ignore[attr-defined]
    assert refused(message).field == "X-Own"


def test_the_headers_of_an_attached_message_are_checked_too() -> None:
    message = EmailMessage()
    message["From"], message["To"] = "a@b.example", "c@d.example"
    message.add_attachment(smuggled("Subject", "a\rb"))
    assert refused(message).field == "Subject"


@pytest.mark.parametrize("control", ["%0D%0A", "%00", "%E2%80%A8", "%1B", "%C2%85"])
def test_a_file_name_that_decodes_to_a_control_character_is_refused(control: str) -> None:
    message = legacy(Content_Disposition=f"attachment; filename*=utf-8''a{control}b.pdf")
    error = refused(message)
    assert (error.field, "control characters" in error.rule) == ("filename", True)


ENCODED = b"=?utf-8?q?" + b"a" * 40 + b"=0D=0ABcc:_evil=40x.example=0D=0A?="


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("name", [b"Subject", b"X-Own", b"Comments"])
def test_an_encoded_word_with_a_line_break_never_becomes_a_header(kind: str, name: bytes) -> None:
    """CVE-2024-6923: written anew by a modern policy, the break would be a real one."""
    raw = b"From: a@b.example\nTo: c@d.example\n%s: %s %s\n\nhi\n" % (name, ENCODED, b"tail " * 20)
    message = email.message_from_bytes(raw, policy=POLICIES[kind])
    if kind == "compat32":  # which writes the encoded word as it stands
        assert email.message_from_bytes(ready(message).content)["Bcc"] is None
    else:
        assert refused(message).field == name.decode()


@pytest.mark.parametrize("kind", POLICIES)
def test_a_name_with_an_encoded_line_break_is_refused(kind: str) -> None:
    raw = b"From: a@b.example\nTo: =?utf-8?q?a=0D=0ABcc=3A_e=40x.example?= <c@d.example>\n\nhi\n"
    assert refused(email.message_from_bytes(raw, policy=POLICIES[kind])).rule


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["To", "Cc", "Bcc", "From", "Sender"])
@pytest.mark.parametrize(
    "value",
    ["no address", "a b@c.example", "<>", "a@b.example b@c.example", "(" * 3000 + "@x", "a@", '"'],
    ids=lambda value: value[:12],
)
def test_what_is_no_list_of_addresses_is_refused_by_the_field_s_name(name: str, value: str) -> None:
    error = refused(legacy(**{name: value}))
    assert error.field in (name.lower(), "from", "recipients")
    assert value not in str(error)


@pytest.mark.parametrize("kind", POLICIES)
def test_raw_octets_in_an_address_are_refused_and_not_replaced(kind: str) -> None:
    """Replaced by U+FFFD the email would go to somebody else."""
    raw = "From: a@b.example\nTo: müller@d.example\n\nhi\n".encode("latin-1")
    assert refused(email.message_from_bytes(raw, policy=POLICIES[kind])).field == "to"


def test_several_authors_need_a_sender_and_it_is_checked_under_its_own_name() -> None:
    assert refused(legacy(From="a@b.example, c@d.example")).field == "sender"
    several = legacy(From="a@b.example, c@d.example", Sender="x@y.example, z@y.example")
    assert refused(several).field == "sender"
    assert refused(legacy(Sender="x@y_z.example")).field == "sender"
    assert refused(legacy(From="x@y_z.example")).field == "from"


def test_an_author_and_a_recipient_are_required() -> None:
    message = legacy()
    del message["From"]
    assert refused(message).field == "from"
    message = legacy()
    del message["To"]
    assert refused(message).field == "recipients"
    assert refused(legacy(To="undisclosed-recipients:;")).field == "recipients"


@pytest.mark.parametrize("value", ["x", "<x>", "<a b@c>", "<a@b", "a@b", "<" + "x" * 250 + "@b>"])
def test_a_message_id_that_is_none_is_refused(value: str) -> None:
    assert refused(legacy(Message_ID=value)).field == "message-id"


def test_an_email_over_the_limit_is_refused_with_the_setting_s_name() -> None:
    message = legacy()
    with pytest.raises(InvalidMessage, match="OUTBOX_MAX_SIZE allows 10") as caught:
        render(message, send_at=None, max_size=10, split_size=10)
    assert caught.value.field == "message"
    del message["To"]
    with pytest.raises(InvalidMessage, match="OUTBOX_MAX_SIZE"):
        render_shared(message, send_at=None, max_size=10)


@pytest.mark.parametrize("name", ["To", "Cc", "Bcc"])
def test_a_shared_content_names_no_recipient(name: str) -> None:
    message = legacy()
    del message["To"]
    message[name] = "x@y.example"
    with pytest.raises(InvalidMessage) as caught:
        render_shared(message, send_at=None, max_size=10**6)
    assert caught.value.field == name.lower()


@pytest.mark.parametrize("value", [5, ["x"], b"x"], ids=repr)
def test_a_header_value_that_is_no_text_is_refused(value: Any) -> None:
    message = legacy()
    message["X-Own"] = value
    assert refused(message).field == "message"


def test_a_header_object_is_checked_by_its_text() -> None:
    message = legacy()
    message["X-Own"] = Header("a\nb", "utf-8")
    assert refused(message).field == "X-Own"


@pytest.mark.parametrize("fold", ["\n ", "\r\n\t", "\r\n   "])
@pytest.mark.parametrize("kind", POLICIES)
def test_a_folded_list_of_addresses_is_read_to_its_end(kind: str, fold: str) -> None:
    raw = f"From: a@b.example\r\nTo: c@d.example,{fold}Jo <e@f.example>\r\n\r\nhi\r\n"
    mail = ready(email.message_from_bytes(raw.encode(), policy=POLICIES[kind]))
    assert mail.recipients == ("c@d.example", "e@f.example")


def test_addresses_come_in_the_order_of_the_names_asked_for() -> None:
    message = legacy(To="a@x.example, B <b@x.example>", Cc="friends: c@x.example, d@x.example;")
    found = [address.addr_spec for address in addresses(message, "Cc", "To")]
    assert found == ["c@x.example", "d@x.example", "a@x.example", "b@x.example"]
    check_headers(message)


@pytest.mark.parametrize("name", ["", "Jo", "Jo Doe", "Doe, Jo", 'Jo "J" Doe', "Jö Döe", "Jö, D."])
@pytest.mark.parametrize("address", ["a@b.example", "jö@b.example"])
def test_an_address_as_written_reads_back_as_the_same(name: str, address: str) -> None:
    (found,) = parse_addresses("To", written(name, address).replace("\n", ""))
    assert (found.display_name, found.addr_spec) == (name, address)
    assert written(name, "a@b.example").isascii()
