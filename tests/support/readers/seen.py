"""What a reader saw of a message, in the words of `tests.support.corpus.meant`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tests.support.corpus.meant import File, Meant, Pair

Read = Callable[[Mapping[str, bytes], Path], dict[str, "Seen"]]
"""Reads messages, by any names, all of them at once; it may write in the folder."""


@dataclass(kw_only=True)
class Seen:
    """What a reader shows; texts have bare LF, and no line end at their end."""

    subject: str
    sender: list[Pair]
    to: list[Pair]
    cc: list[Pair] = field(default_factory=list)
    reply_to: list[Pair] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    htmls: list[str] = field(default_factory=list)
    others: list[tuple[str, str]] = field(default_factory=list)  # a type and its text
    files: list[File] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)  # by their names in lower case
    failure: str = ""  # why it could not be read

    def take(self, kind: str, text: str) -> None:
        """Put a text where its type belongs."""
        if kind == "text/html":
            self.htmls.append(lines(text))
        elif kind == "text/plain":
            self.texts.append(lines(text))
        else:
            self.others.append((kind, lines(text)))

    def keep(self, kind: str, name: str | None, data: bytes, content_id: str) -> None:
        """Put a file with the others, but for a signature, which the tests verify.

        A message in a message is no file of octets: it has the line ends of the whole.
        """
        if kind.startswith("message/"):
            data = data.replace(b"\r\n", b"\n").strip()
        if name not in SEALS:
            content_id = content_id.strip("<>")
            self.files.append(File(name=name, data=data, kind=kind, content_id=content_id))


SEALS = ("smime.p7s", "smime.p7m", "signature.asc")


def as_seen(meant: Meant) -> Seen:
    """Return what a faithful reader shows of this."""

    def people(*pairs: Pair) -> list[Pair]:
        return [(name, meant.shown.get(address, address)) for name, address in pairs]

    return Seen(
        subject=meant.subject,
        sender=people(meant.sender),
        to=people(*meant.to),
        cc=people(*meant.cc),
        reply_to=people(*([meant.reply_to] if meant.reply_to else [])),
        texts=[] if meant.text is None else [lines(meant.text)],
        htmls=[] if meant.html is None else [lines(meant.html)],
        others=[(f"text/{kind}", lines(text)) for kind, text in meant.others.items()],
        files=list(meant.files),
        fields={name.lower(): value for name, value in meant.fields.items()},
    )


def differences(seen: Seen, meant: Meant) -> dict[str, tuple[Any, Any]]:
    """Return what is seen and what is meant, by the name of what differs.

    Of the headers those count that were meant: a server adds its own.
    """
    wanted = as_seen(meant)
    kept = replace(seen, fields={name: seen.fields.get(name, "") for name in wanted.fields})
    pairs = {
        each.name: (getattr(kept, each.name), getattr(wanted, each.name)) for each in fields(Seen)
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def from_told(told: Mapping[str, Any], decode: Callable[[bytes, str], str] | None = None) -> Seen:
    """Return what a program of ours told in JSON: headers, people, and the leaves in order.

    Where it does not know charsets, `decode` makes a text of a part's octets and its charset.
    """
    if "failed" in told:
        return Seen(subject="", sender=[], to=[], failure=told["failed"])
    own = {name.lower(): value for name, value in told["fields"].items()}
    seen = Seen(
        subject=own.get("subject", ""),
        sender=_pairs(told["people"], "From"),
        to=_pairs(told["people"], "To"),
        cc=_pairs(told["people"], "Cc"),
        reply_to=_pairs(told["people"], "Reply-To"),
        fields=own,
    )
    for part in told["parts"]:
        data = base64.b64decode(part["data"])
        if part["is_file"]:
            seen.keep(part["type"], part["name"], data, part["content_id"])
        else:
            seen.take(part["type"], decode(data, part["charset"]) if decode else part["text"])
    return seen


def _pairs(people: Mapping[str, list[list[str]]], header: str) -> list[Pair]:
    return [(name, address) for name, address in people.get(header) or []]
