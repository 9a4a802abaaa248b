"""International domains in ASCII: where IDNA 2003 and IDNA 2008 name the same host, or not at all.

Python knows IDNA 2003 with the characters of Unicode 3.2. IDNA 2008 and UTS 46, which registries
and browsers use, name another host for a few characters. Of those ß and ς are encoded as they say,
and a domain with any other is refused, so no mail goes to a host that its author did not mean.
"""

from __future__ import annotations

import re
from encodings.idna import ToASCII, nameprep
from stringprep import in_table_a1, map_table_b2
from typing import Final
from unicodedata import normalize, ucd_3_2_0

_DOT = re.compile("[.\u3002\uff0e\uff61]")
_KEPT: Final = re.compile("([\u00df\u03c2])")
"""Letters of their own since IDNA 2008; before that "ss" and another sigma (UTS 46 §7)."""
_OTHER = re.compile("[\u1e9e\u200c\u200d\u115f\u1160\u17b4\u17b5\u3164\uffa0]")
"""A capital that UTS 46 has mapped in two ways, joiners, and letters that nobody sees."""


class Unsure(UnicodeError):
    """The standards name different hosts for this domain, or Python knows one of them only."""


def to_ascii(domain: str) -> str:
    """Return the domain with each international label as xn--…; Unsure or UnicodeError."""
    if _OTHER.search(domain) or any(map(_is_new, domain)):
        raise Unsure
    return ".".join(map(_label, _DOT.split(domain)))


def _is_new(char: str) -> bool:
    """Whether the character, or the small letter that belongs to it, came after Unicode 3.2."""
    if char.isascii():
        return False
    now = normalize("NFKC", normalize("NFKC", char).casefold())
    return in_table_a1(char) or now != ucd_3_2_0.normalize("NFKC", map_table_b2(char))


def _label(label: str) -> str:
    if not _KEPT.search(label):
        return ToASCII(label).decode("ascii")
    # Prepared around the kept letters: as a whole they would be mapped away.
    pieces = _KEPT.split(label)
    prepared = "".join(p if _KEPT.fullmatch(p) else nameprep(p) for p in pieces)
    return "xn--" + prepared.encode("punycode").decode("ascii")
