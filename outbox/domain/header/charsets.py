"""The charset that a text names (RFC 2045 §2.2, RFC 2047 §2): anybody may have written the text.

Python's codecs for host names are no charsets, but Python takes their names for one. They are
written in Python, and their time grows with the square of the text: to read a subject of 32,000
characters took seconds.
"""

from __future__ import annotations

import re

NO_CHARSET = "names idna or punycode, which are no charsets (RFC 2047 §2)"

_HOST_NAMES = frozenset({"idna", "punycode"})
_PASSED_OVER = re.compile(r"[^a-z0-9]+")
"""What Python passes over in a codec's name: it finds one by `-punycode`, too."""
_NAMED = re.compile(r"=\?(?=([^?*]*)[?*])")
"""What may be an encoded word, with its charset; behind a `*` stands a language (RFC 2231 §5)."""


def is_for_hosts(charset: str) -> bool:
    """Return whether Python takes the name of a charset for one of its codecs for host names."""
    return _PASSED_OVER.sub("", charset.lower()) in _HOST_NAMES


def names_one_for_hosts(text: str) -> bool:
    """Return whether an encoded word in a header names such a codec."""
    return "=?" in text and any(map(is_for_hosts, _NAMED.findall(text)))
