"""The combinations in which processes die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from tests.conftest import FIGURES
from tests.kill.stage.stage import Stage
from tests.kill.stage.stages import Stages
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.databases.drivers import over
from tests.support.turns import DRIVERS

_COMBINATIONS = ("pipelining, resend", "pipelining, hold", "one by one, resend")
_PARTS = [f"{_COMBINATIONS[0]}, {number} of 3" for number in (1, 2, 3)]
"""The combination of which a database tries the most points: `make test` runs the first part."""


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    """The stages that are warm."""
    with closing(Stages(tmp_path_factory.mktemp("kill"))) as warm:
        yield warm


@pytest.fixture
def database_url(request: pytest.FixtureRequest, stages: Stages) -> str:
    """The URL of the one database of its kind: a stage clears it each time that it begins."""
    database = DRIVERS.get(request.param, request.param)
    fixture = {"postgresql": "postgres", "mariadb": "mariadb"}.get(database)
    server = request.getfixturevalue(fixture) if fixture else None
    url = stages.database(database, server)
    return over(url, request.param) if request.param in DRIVERS else url


@pytest.fixture(
    params=[
        _PARTS[0],
        *(pytest.param(c, marks=pytest.mark.long) for c in (*_PARTS[1:], *_COMBINATIONS[1:])),
    ]
)
def stage(
    database_url: str,
    redis: RedisServer,
    stages: Stages,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> Iterator[Stage]:
    """A stage on each database, with each kind of server and each policy for emails in doubt."""
    server, policy, *part = request.param.split(", ")
    failed = request.session.testsfailed
    with stages.lend(
        database_url, redis, pipelining=server == "pipelining", hold=policy == "hold"
    ) as lent:
        made = replace(lent, say=lambda line: record_property(FIGURES, line))
        if not request.config.getoption("--whole"):
            made.share = 3 if request.param.startswith(_COMBINATIONS[0]) else 9
        if part:
            made.part, made.parts = _PARTS.index(request.param), len(_PARTS)
        yield made
    if request.session.testsfailed > failed:  # who knows what it has left
        stages.close()


everywhere = [pytest.mark.each_database, pytest.mark.timeout(600)]
both_policies = pytest.mark.parametrize("stage", _COMBINATIONS[:2], indirect=True)
one_combination = pytest.mark.parametrize("stage", _COMBINATIONS[:1], indirect=True)
