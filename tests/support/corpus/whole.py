"""The whole corpus, by name."""

from __future__ import annotations

from tests.support.corpus.files import FILES
from tests.support.corpus.headers import HEADERS
from tests.support.corpus.letters import LETTERS
from tests.support.corpus.meant import Meant
from tests.support.corpus.people import PEOPLE
from tests.support.corpus.signed import SIGNED
from tests.support.corpus.structure import STRUCTURE
from tests.support.corpus.texts import TEXTS

_THEMES = (TEXTS, HEADERS, PEOPLE, FILES, LETTERS, STRUCTURE, SIGNED)

CORPUS: dict[str, Meant] = {name: meant for theme in _THEMES for name, meant in theme.items()}
assert len(CORPUS) == sum(map(len, _THEMES)), "a name stands in two themes"
