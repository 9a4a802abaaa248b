"""Each page needs few statements, however much it shows: beside a drain each of them waits."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.domain.fleet import LIVING
from tests.integration.dashboard import scene
from tests.integration.dashboard.desk import Desk
from tests.integration.store.search.test_problems import FULL, refused

PAGES = {
    "/": 8,  # one for nearly all; the breakers, workers, place (two), instance, jobs and figures
    "/now": 7,
    "/figures": 2,
    "/figures?last=week": 2,
    "/problems": 1,
    "/newsletters": 2,  # which tags there are, and how far each has come
    "/newsletters/tag?tag=news-1": 2,  # how far it has come, and where the audit ends
    "/workers": 2,
}
"""The statements of each page on PostgreSQL."""

STEPS = {"/": 8, "/problems": 4, "/newsletters": 40}
"""The most statements on a database without a way of its own."""


def fill(desk: Desk) -> None:
    for number in range(6):
        scene.send(desk.shop, f"news-{number}", 12)
        scene.ended(desk.shop, f"news-{number}", Status.SENT, 3)
        refused(desk.shop, f"a@{number}.example", FULL)
    scene.fleet(desk.shop)
    scene.figures(desk.shop)
    scene.halted(desk.shop, "mx.example:25")
    desk.shop.outbox.pause("bulk")
    desk.shop.later(LIVING)


def number_of(desk: Desk, path: str) -> int:
    """Return how many statements a page runs; the first look may find out more."""
    desk.get(path)
    seen: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        seen.append(statement)

    sa.event.listen(desk.shop.engine, "before_cursor_execute", note)
    desk.get(path)
    sa.event.remove(desk.shop.engine, "before_cursor_execute", note)
    return len(seen)


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_each_page_runs_as_many_statements_on_postgresql(desk: Desk) -> None:
    fill(desk)
    assert {path: number_of(desk, path) for path in PAGES} == PAGES


@pytest.mark.long
@pytest.mark.databases("sqlite", "mariadb")
def test_a_page_runs_few_statements_elsewhere(desk: Desk) -> None:
    fill(desk)
    found = {path: number_of(desk, path) for path in STEPS}
    assert {path: most for path, most in STEPS.items() if found[path] > most} == {}, found
