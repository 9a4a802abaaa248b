"""The word that somebody may have meant, in the error for one that is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def hint(word: object, known: Iterable[str], *, prefix: str = "") -> str:
    """Return "; did you mean …?" for the known word that is most like this one, or "".

    The `prefix`, which all words have, makes no two words alike.
    """
    names = [name.removeprefix(prefix) for name in known]
    close = get_close_matches(str(word).removeprefix(prefix), names, n=1)
    return f"; did you mean {prefix}{close[0]}?" if close else ""
