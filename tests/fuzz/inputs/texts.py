"""Hostile text: near to what is valid, so that it gets past the first check."""

from __future__ import annotations

from hypothesis import strategies as st

LINE_ENDS = ["\r\n", "\n", "\r", "\r\n ", "\n\t", "\r\n\r\n", "\r\n.\r\n", "\v", "\f", "\x1c"]
UNSEEN = ["\0", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u2029", "\u202e", "\u200b", "\ufeff"]
STRANGE = [
    "\ud800",
    "\udcff",
    "\ufffd",
    "\U000e0041",
    "e\u0301",
    "\u212a",
    "\uff20",
    "ß",
    "\u0131",
    "😀",
]
SPECIALS = list("\"\\'()<>[]:;@,.%=?&#/|~^*+-_!$`{} \t")
WORDS = [
    "=?utf-8?q?=0D=0ABcc=3A_evil=40x.example?=", "=?utf-8?b?", "?=", "=?x?q?a?=", "=0D=0A",
    "Bcc: evil@x.example", "%0d%0aBcc:", "''", "utf-8''", "..", "../../etc/passwd", "C:\\a",
    "evil@x.example", "<script>alert(1)</script>", "{{ 7*7 }}", "' OR 1=1 --", "%s%n", "\\r\\n",
    "RCPT TO:<evil@x.example>", "x" * 80, "x" * 1100, "ü" * 400, "a b " * 300, "(" * 500,
]  # fmt: skip

PIECES = st.sampled_from(LINE_ENDS + UNSEEN + STRANGE + SPECIALS + WORDS)
ANY = st.text(st.characters(), max_size=40)  # with lone surrogates, which `text()` leaves out
_LENGTHS = st.sampled_from([1200] * 9 + [5000, 30_000, 100_000])
HOSTILE = st.one_of(
    st.lists(PIECES, max_size=6).map("".join),
    ANY,
    st.builds(lambda piece, octets: piece * (octets // len(piece)), PIECES, _LENGTHS),
)


@st.composite
def mutated(draw: st.DrawFn, valid: st.SearchStrategy[str]) -> str:
    """Something valid with up to three faults in it."""
    text = draw(valid)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 3)))
        text = text[:start] + draw(PIECES | st.just("")) + text[end:]
    return text


def around(*valid: str) -> st.SearchStrategy[str]:
    """These texts, most of them with faults, and hostile text beside them."""
    return st.one_of(mutated(st.sampled_from(valid)), mutated(st.sampled_from(valid)), HOSTILE)
