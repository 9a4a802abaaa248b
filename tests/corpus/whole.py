"""The whole corpus, by name."""

from __future__ import annotations

from tests.corpus.files import FILES
from tests.corpus.headers import HEADERS
from tests.corpus.letters import LETTERS
from tests.corpus.meant import Meant
from tests.corpus.people import PEOPLE
from tests.corpus.signed import SIGNED
from tests.corpus.structure import STRUCTURE
from tests.corpus.texts import TEXTS

_THEMES = (TEXTS, HEADERS, PEOPLE, FILES, LETTERS, STRUCTURE, SIGNED)

CORPUS: dict[str, Meant] = {name: meant for theme in _THEMES for name, meant in theme.items()}
assert len(CORPUS) == sum(map(len, _THEMES)), "a name stands in two themes"
