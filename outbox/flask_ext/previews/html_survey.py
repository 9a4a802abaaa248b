"""What a mail program would meet in an HTML part: links, images, and what it takes out."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser

STRIPPED = {
    "script", "iframe", "frame", "frameset", "object", "embed", "applet", "form", "input", "button",
    "select", "textarea", "video", "audio", "canvas", "base",
}  # fmt: skip
"""Elements that the large mail programs remove or do not run."""

_GIVES_UP = (AssertionError, ValueError)
"""What Python's parser raises for a few broken declarations, and for numbers of 5000 digits."""

_URL = re.compile(r"""url\(\s*['"]?([^'")]+)""", re.IGNORECASE)
_IMPORT = re.compile(r"@import\b[^;]*;?", re.IGNORECASE)
_FONT = re.compile(r"@font-face\s*\{[^}]*\}?", re.IGNORECASE)


@dataclass(frozen=True)
class Link:
    """A link with its text, or the `alt` of its image."""

    url: str
    text: str


@dataclass
class Survey:
    """Everything that was found, in its order."""

    links: list[Link] = field(default_factory=list)
    images: list[str] = field(default_factory=list)  # the URLs, those of backgrounds included
    without_alt: list[str] = field(default_factory=list)  # URLs of images without the attribute
    stylesheets: list[str] = field(default_factory=list)
    stripped: set[str] = field(default_factory=set)  # names of elements
    handlers: set[str] = field(default_factory=set)  # attributes with scripts, such as onclick
    imports: bool = False  # whether a style imports another


def survey(html: str) -> Survey:
    """Read an HTML part; whatever it has, this soon ends and raises nothing.

    A tag or a comment that never ends is left out with all behind it, as browsers do. `close` would
    read on from each "<" in it to the end, and take minutes for what a stranger wrote.
    """
    reader = _Reader()
    with suppress(*_GIVES_UP):
        reader.feed(html)
    reader.end_link()
    return reader.found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found = Survey()
        self._link: str | None = None
        self._words: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        if tag in STRIPPED:
            self.found.stripped.add(tag)
        self.found.handlers.update(name for name in given if name.startswith("on"))
        self._style(given.get("style", ""))
        if background := given.get("background"):
            self.found.images.append(background.strip())
        match tag:
            case "img":
                self._image(given)
            case "a" | "area" if "href" in given:
                self.end_link()
                self._link = given["href"].strip()
            case "link" if "stylesheet" in given.get("rel", "").lower():
                self.found.stylesheets.append(given.get("href", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self.end_link()
        elif tag == "style":
            self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self._style(data)
        elif self._link is not None:
            self._words.append(data)

    def end_link(self) -> None:
        """Note the link whose text has ended, if there is one."""
        if self._link is not None:
            text = " ".join(" ".join(self._words).split())
            self.found.links.append(Link(self._link, text))
        self._link, self._words = None, []

    def _image(self, given: dict[str, str]) -> None:
        url = given.get("src", "").strip()
        self.found.images.append(url)
        if "alt" not in given:
            self.found.without_alt.append(url)
        elif self._link is not None:
            self._words.append(given["alt"])

    def _style(self, css: str) -> None:
        rest, imports = _IMPORT.subn("", _FONT.sub("", css))
        self.found.images += [url.strip() for url in _URL.findall(rest)]
        self.found.imports |= imports > 0
