"""The combinations in which processes die."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.conftest import FIGURES
from tests.kill.stage.stage import Stage, staged
from tests.support.servers.brokers.redis import RedisServer

_COMBINATIONS = ("pipelining, resend", "pipelining, hold", "one by one, resend")
_PARTS = [f"{_COMBINATIONS[0]}, {number} of 3" for number in (1, 2, 3)]
"""The combination of which a database tries the most points: `make test` runs the first part."""


@pytest.fixture(
    params=[
        _PARTS[0],
        *(pytest.param(c, marks=pytest.mark.long) for c in (*_PARTS[1:], *_COMBINATIONS[1:])),
    ]
)
def stage(
    database_url: str,
    redis: RedisServer,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> Iterator[Stage]:
    """A stage on each database, with each kind of server and each policy for emails in doubt."""
    server, policy, *part = request.param.split(", ")
    with staged(
        database_url, redis, pipelining=server == "pipelining", hold=policy == "hold"
    ) as made:
        if not request.config.getoption("--whole"):
            made.share = 3 if request.param.startswith(_COMBINATIONS[0]) else 9
        if part:
            made.part, made.parts = _PARTS.index(request.param), len(_PARTS)
        made.say = lambda line: record_property(FIGURES, line)
        yield made


everywhere = [pytest.mark.each_database, pytest.mark.timeout(600)]
both_policies = pytest.mark.parametrize("stage", _COMBINATIONS[:2], indirect=True)
one_combination = pytest.mark.parametrize("stage", _COMBINATIONS[:1], indirect=True)
