"""What a commit costs while Redis is up, stopped, and silent: the nudge must not reach the request.

`python -m benchmarks.commit` prints the medians and the worst of each, in milliseconds.
"""

from __future__ import annotations

import statistics
import time

import click

from benchmarks.load import message
from tests.servers.postgres import Postgres
from tests.servers.redis import RedisServer
from webapp import create_app
from webapp.extensions import db, outbox


def commits(count: int) -> list[float]:
    """Enqueue and commit so many mails, and return the milliseconds of each."""
    taken = []
    for number in range(count):
        mail = message(number)
        begun = time.perf_counter()
        outbox.enqueue(mail)
        db.session.commit()
        taken.append((time.perf_counter() - begun) * 1000)
    return taken


@click.command()
@click.option("--count", default=300, show_default=True)
def main(count: int) -> None:
    """Print the cost of enqueue and commit in each state of Redis."""
    with Postgres() as postgres, RedisServer() as redis:
        app = create_app(
            {
                "SECRET_KEY": "bench",
                "SQLALCHEMY_DATABASE_URI": postgres.new_database(),
                "PUBLIC_URL": "http://localhost",
            }
        )
        app.extensions["celery"].conf.broker_url = redis.url
        with app.app_context():
            db.create_all()
            commits(50)
            for state, change in (
                ("up", lambda: None),
                ("silent", redis.freeze),
                ("up again", redis.thaw),
                ("stopped", redis.stop),
            ):
                change()
                taken = sorted(commits(count))
                click.echo(
                    f"Redis {state:<9} median {statistics.median(taken):.2f} ms"
                    f"   p99 {taken[int(count * 0.99)]:.2f} ms   worst {taken[-1]:.2f} ms"
                )
            db.engine.dispose()


if __name__ == "__main__":
    main()
