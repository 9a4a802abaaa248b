"""What a reader saw of a message, in the words of `tests.corpus.meant`."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.corpus.meant import Meant, Pair


@dataclass(kw_only=True)
class Seen:
    """What a reader shows; texts have bare LF, and no line end at their end."""

    subject: str
    sender: list[Pair]
    to: list[Pair]
    texts: list[str] = field(default_factory=list)
    htmls: list[str] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)


def as_seen(meant: Meant) -> Seen:
    """Return what a faithful reader shows of this."""
    return Seen(
        subject=meant.subject,
        sender=[meant.sender],
        to=list(meant.to),
        texts=[] if meant.text is None else [lines(meant.text)],
        htmls=[] if meant.html is None else [lines(meant.html)],
        files=list(meant.files.items()),
    )


def lines(text: str) -> str:
    return text.replace("\r\n", "\n").rstrip("\n")
