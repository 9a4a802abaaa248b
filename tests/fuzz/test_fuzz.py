"""A bounded share of the fuzzer: so many inputs from each source, the same ones each time.

What fails here was broken by the last change. `--whole` tries twice as many;
`python -m tests.fuzz --minutes 30` looks for more: as many as you like, and others each time.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import pytest
from hypothesis import strategies as st

from tests.conftest import INPUTS
from tests.fuzz import campaign
from tests.fuzz.campaign import Property, Tally, attempt
from tests.fuzz.sources import KINDS, fresh_database

pytestmark = pytest.mark.each_database

Told = Callable[[str, object], None]
EVERYWHERE = ("emails",)
"""What may meet a database's own rules runs on each of them; the others on SQLite."""


@pytest.fixture
def share(pytestconfig: pytest.Config) -> float:
    """How much of it is tried."""
    return 1.0 if pytestconfig.getoption("--whole") else 0.5


def tried(kind: str, url: str, record_property: Told, share: float) -> None:
    with KINDS[kind].open(url) as properties:
        for checked in properties:
            tally, seed = Tally(), crc32(checked.source.encode())
            attempt(checked, round(KINDS[kind].examples[checked.source] * share), seed, tally)
            record_property(INPUTS, (checked.source, tally.inputs))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in EVERYWHERE])
def test_bad_input_is_refused_or_harmless(kind: str, record_property: Told, share: float) -> None:
    with fresh_database() as url:
        tried(kind, url, record_property, share)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_bad_email_is_refused_or_goes_out_as_it_was_given(
    database_url: str, record_property: Told, share: float
) -> None:
    tried("emails", database_url, record_property, share / 2)


@pytest.mark.long
def test_an_input_that_never_ends_is_cut_and_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(value: bool) -> None:
        while value:
            pass

    monkeypatch.setattr(campaign, "CPU", 0.05)
    endless = Property(source="truths", inputs=st.booleans(), holds=ends)
    with pytest.raises(AssertionError, match=r"more than 0\.05 s of processor time"):
        attempt(endless, 100, 1, Tally())
