"""Each typical mistake is told, in the words of the table, and where the table says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outbox.dashboard import Dashboard
from tests.support.servers.brokers.redis import RedisServer
from tests.support.shop.shop import Shops

from . import (
    of_calls,
    of_fleet,
    of_postgresql,
    of_privacy,
    of_running,
    of_settings,
    of_wiring,
)
from .table import Case
from .trial import Trial

pytestmark = [pytest.mark.databases("sqlite")]

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "troubleshooting.md"
ALL = [
    *of_settings.CASES,
    *of_calls.CASES,
    *of_wiring.CASES,
    *of_running.CASES,
    *of_fleet.CASES,
    *of_privacy.CASES,
]


@pytest.fixture
def trial(
    shops: Shops,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> Iterator[Trial]:
    def broker() -> str:
        redis: RedisServer = request.getfixturevalue("redis")
        return redis.url

    made = Trial(url=shops.url, folder=tmp_path, logged=lambda: caplog.text, broker=broker)
    yield made
    made.close()


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.mistake)
def test_a_mistake_is_told(case: Case, trial: Trial) -> None:
    tell(case, trial)


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("case", of_postgresql.CASES, ids=lambda case: case.mistake)
def test_a_mistake_on_postgresql_is_told(case: Case, trial: Trial) -> None:
    tell(case, trial)


def tell(case: Case, trial: Trial) -> None:
    """Make the mistake, and assert that each place tells of it."""
    try:
        case.make(trial)
    except Exception as error:
        if "exception" not in case.told:
            raise
        trial.raised = error
    for place, words in case.told.items():
        assert words in trial.told(place), place


def test_an_app_without_mistakes_is_told_none_of_it(trial: Trial) -> None:
    Dashboard(trial.app(), access=lambda: None)
    trial.enqueue()
    trial.beats()
    said = {place: trial.told(place) for place in ("log", "start", "check", "health")}
    assert said["log"] == said["start"] == ""
    for case in ALL:
        for place, words in case.told.items():
            # No broker runs in this test, so `check` says that.
            if place != "exception" and "cannot be reached" not in words:
                assert words not in said[place], case.mistake


def test_the_table_has_thirty_mistakes_and_none_is_silent() -> None:
    assert len({case.mistake for case in ALL}) == len(ALL) >= 30
    assert all(case.told for case in ALL)


def test_the_page_on_trouble_has_all_these_words() -> None:
    text = " ".join(PAGE.read_text().split())
    told = [words for case in (*ALL, *of_postgresql.CASES) for words in case.told.values()]
    assert [words for words in told if _plain(words) not in text] == []


def _plain(words: str) -> str:
    """Return the words without the class of the error or the level of the finding."""
    for before in (
        "KeyConflict: ",
        "ConfigurationError: ",
        "InvalidMessage: ",
        "TypeError: ",
        "RuntimeError: ",
        "TransactionUndone: ",
    ):
        words = words.removeprefix(before)
    return " ".join(words.removeprefix("MissingTables: ").removeprefix("error  ").split())
