"""enqueue: one mail beside one business row in a transaction, as a request does it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from sqlalchemy import insert

from benchmarks.bench import Bench
from benchmarks.load import message
from benchmarks.measure import quantile
from benchmarks.ours import Ours, ours
from benchmarks.peers.backlogs import post_office_enqueue
from benchmarks.results import Row, Series, at_least, at_most

MAILS = 3_000


def run(bench: Bench) -> list[Row]:
    """Measure the cost above the row and the MIME, and the rate beside post_office's."""
    mails = bench.size(MAILS, least=100)
    above = [_cost_above(bench, mails) for _ in range(bench.rounds)]
    contestants: dict[str, Callable[[], float]] = {
        "this project": partial(_rate, bench, mails),
        "post_office": partial(post_office_enqueue, bench, mails, "one"),
    }
    rates = bench.rates(contestants)
    cost = Series("this project", "ms", tuple(above))
    return [
        Row("enqueue", "enqueue beside a row, cost above row and MIME", cost, target=at_most(0.5)),
        Row(
            "enqueue",
            "enqueue one by one",
            rates["this project"],
            rates["post_office"],
            at_least(1.0),
        ),
    ]


def _cost_above(bench: Bench, mails: int) -> float:
    """Return the milliseconds that a mail adds, from medians of steps that were taken in turn."""
    with ours(bench.postgres.new_database(), bench.redis.url, 25, nudge=True) as made:
        steps: dict[str, Callable[[int], object]] = {
            "row": partial(_row, made),
            "mime": lambda number: message(number).as_bytes(),
            "both": partial(_row_and_mail, made),
        }
        taken: dict[str, list[float]] = {name: [] for name in steps}
        for number in range(mails):
            for name, step in steps.items():
                begun = time.perf_counter()
                step(number)
                taken[name].append((time.perf_counter() - begun) * 1000)
    row, mime, both = (quantile(taken[name], 0.5) for name in ("row", "mime", "both"))
    bench.remark(f"medians: row {row:.2f} ms, MIME {mime:.2f} ms, row and mail {both:.2f} ms")
    return both - row - mime


def _rate(bench: Bench, mails: int) -> float:
    with ours(bench.postgres.new_database(), bench.redis.url, 25, nudge=True) as made:
        begun = time.perf_counter()
        for number in range(mails):
            _row_and_mail(made, number)
        return mails / (time.perf_counter() - begun)


def _row(made: Ours, number: int) -> None:
    made.app.db.session.execute(insert(made.app.business).values(customer=f"c{number}"))
    made.app.db.session.commit()


def _row_and_mail(made: Ours, number: int) -> None:
    made.app.db.session.execute(insert(made.app.business).values(customer=f"c{number}"))
    made.enqueue_one(number)
