"""enqueue: writes one email beside one business row in a transaction, as a request does."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from benchmarks.bench import Bench
from benchmarks.load import message
from benchmarks.measure import quantile
from benchmarks.ours import Ours, ours
from benchmarks.peers.backlogs import post_office_enqueue
from benchmarks.results import Row, Series, at_least, at_most

EMAILS = 3_000
_ROW = "INSERT INTO business (customer) VALUES (%s)"


def run(bench: Bench) -> list[Row]:
    """Measure the cost above the row and the MIME, and the rate beside post_office's."""
    emails = bench.size(EMAILS, least=100)
    steps = [_steps(bench, emails) for _ in range(bench.rounds)]
    contestants: dict[str, Callable[[], float]] = {
        "this project": partial(_rate, bench, emails),
        "post_office": partial(post_office_enqueue, bench, emails, "one"),
    }
    rates = bench.rates(contestants)
    mine, other = rates["this project"], rates.get("post_office")
    taken = {name: Series("this project", "ms", tuple(s[name] for s in steps)) for name in steps[0]}
    theirs = Series("Flask-Mail", "ms", taken.pop("flask-mail").values)
    above = [s["both"] - s["row"] - s["mime"] for s in steps]
    cost = Series("this project", "ms", tuple(above))
    return [
        Row("enqueue", "a business row alone, with its commit", taken["row"]),
        Row("enqueue", "building of an email's MIME", taken["mime"], theirs),
        Row("enqueue", "business row and email in one commit", taken["both"]),
        Row("enqueue", "an email above business row and MIME", cost, target=at_most(0.5)),
        Row("enqueue", "enqueue one by one", mine, other, at_least(1.0) if other else None),
    ]


def _steps(bench: Bench, emails: int) -> dict[str, float]:
    """Return the median milliseconds of each step; the steps take turns.

    The MIME that is subtracted is our own, as the enqueue builds it. Flask-Mail's takes longer: if
    it were subtracted, the rest would look smaller than it is.
    """
    with ours(bench.postgres.new_database(), bench.redis.url, 25, nudge=True) as made:
        steps: dict[str, Callable[[int], object]] = {
            "row": partial(_row, made),
            "mime": made.build,
            "flask-mail": lambda number: message(number).as_bytes(),
            "both": partial(_row_and_email, made),
        }
        taken: dict[str, list[float]] = {name: [] for name in steps}
        for number in range(emails):
            for name, step in steps.items():
                begun = time.perf_counter()
                step(number)
                taken[name].append((time.perf_counter() - begun) * 1000)
    medians = {name: quantile(values, 0.5) for name, values in taken.items()}
    bench.remark(
        "medians: row {row:.2f} ms, our MIME {mime:.3f} ms, Flask-Mail's {flask-mail:.3f} ms,"
        " row and email {both:.2f} ms".format(**medians)
    )
    return medians


def _rate(bench: Bench, emails: int) -> float:
    with ours(bench.postgres.new_database(), bench.redis.url, 25, nudge=True) as made:
        begun = time.perf_counter()
        for number in range(emails):
            _row_and_email(made, number)
        return emails / (time.perf_counter() - begun)


def _row(made: Ours, number: int) -> None:
    _insert_row(made, number)
    made.app.db.session.commit()


def _row_and_email(made: Ours, number: int) -> None:
    _insert_row(made, number)
    made.enqueue_one(number)


def _insert_row(made: Ours, number: int) -> None:
    """Insert the business row as post_office's loop does: by SQL that goes to the driver."""
    made.app.db.session.connection().exec_driver_sql(_ROW, (f"c{number}",))
