"""A bounded share of the fuzzer: so many inputs from each source, other ones each time.

`python -m tests.fuzz --minutes 30` tries as many as you like.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.conftest import INPUTS
from tests.fuzz.campaign import Tally, attempt
from tests.fuzz.sources import KINDS, fresh_database

Told = Callable[[str, object], None]
EVERYWHERE = ("mails",)
"""What may meet a database's own rules runs on each of them; the others on SQLite."""


def tried(kind: str, url: str, record_property: Told, share: int = 1) -> None:
    with KINDS[kind].open(url) as properties:
        for checked in properties:
            tally, seed = Tally(), random.randrange(2**32)
            print(f"{checked.source}: --seed {seed}")
            attempt(checked, KINDS[kind].examples[checked.source] // share, seed, tally)
            record_property(INPUTS, (checked.source, tally.inputs))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in EVERYWHERE])
def test_bad_input_is_refused_or_harmless(kind: str, record_property: Told) -> None:
    with fresh_database() as url:
        tried(kind, url, record_property)


@pytest.mark.timeout(600)
def test_a_bad_mail_is_refused_or_goes_out_as_it_was_given(
    database_url: str, record_property: Told
) -> None:
    tried("mails", database_url, record_property, share=2)
