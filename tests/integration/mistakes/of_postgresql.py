"""What only PostgreSQL has."""

from __future__ import annotations

from contextlib import suppress

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from .table import Table
from .trial import Trial, letter

CASES = Table()


@CASES.mistake(
    "a transaction that stays open, so that no vacuum removes dead rows",
    check="outbox_counter has 60000 dead rows beside 0 living ones",
)
def _(trial: Trial) -> None:
    app = trial.app()
    with app.app_context(), trial.db.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE outbox_counter SET (autovacuum_enabled = off)")
        connection.exec_driver_sql(
            "INSERT INTO outbox_counter SELECT n::text, n FROM generate_series(1, 60000) AS n"
        )
        connection.exec_driver_sql("DELETE FROM outbox_counter")
        connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")


@CASES.mistake(
    "an error of the database that the app catches, to commit all the same",
    exception="TransactionUndone: an earlier statement of the session's transaction failed, and"
    " with it the database undid what the transaction had written",
)
def _(trial: Trial) -> None:
    with trial.app().app_context():
        trial.outbox.enqueue(letter())
        with suppress(DBAPIError):
            trial.db.session.execute(sa.text("SELECT 1/0"))
        trial.db.session.commit()
