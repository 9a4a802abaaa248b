"""A role that lacks a privilege sends nothing: no email is to blame, and the GRANT mends all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from outbox import Status
from outbox.store.connection.error_codes import code_of, may_be_of_a_row
from outbox.worker.process import retry_writes
from outbox.worker.tasks import outage_in_a_line, sweep
from tests.integration.flask_ext.cli.check.test_check import with_celery
from tests.integration.store.locks import PATIENCE, swept
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.databases("postgresql", "mariadb"), pytest.mark.each_driver]


@contextmanager
def lacking(shop: Shop, what: str) -> Iterator[str]:
    """Have the connections of a shop be those of a role that lacks this until the block ends."""
    owner = sa.create_engine(shop.engine.url)
    role = f"app_{uuid4().hex[:20]}"
    tables = sa.inspect(owner).get_table_names()

    def run(*statements: str) -> None:
        with owner.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    run(
        f"CREATE {'USER' if owner.name == 'mariadb' else 'ROLE'} {role}",
        *(f"GRANT ALL ON {name} TO {role}" for name in tables),
    )
    if owner.name == "postgresql":
        run(f"ALTER ROLE {role} LOGIN", f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}")
    run(f"REVOKE {what} FROM {role}")

    def be_role(
        dialect: sa.Dialect, record: object, arguments: object, options: dict[str, object]
    ) -> None:
        options["user"] = role

    sa.event.listen(shop.engine, "do_connect", be_role)
    shop.engine.dispose()
    try:
        yield role
    finally:
        run(f"GRANT {what} TO {role}")
        sa.event.remove(shop.engine, "do_connect", be_role)
        shop.engine.dispose()
        owner.dispose()


@pytest.mark.long
@pytest.mark.parametrize(
    "what",
    [
        "INSERT ON outbox_attempt",
        pytest.param("UPDATE ON outbox_email", marks=pytest.mark.long),
        pytest.param("ALL ON outbox_tally", marks=pytest.mark.long),
    ],
)
def test_a_lone_email_waits_for_the_grant_and_is_charged_nothing(
    shop: Shop,
    shops: Shops,
    catcher: Catcher,
    what: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry_writes, "TOLD_EVERY", 0.0)  # so that each try is seen
    email = shop.enqueue()
    motion = swept(shops, catcher, OUTBOX_LEASE=1.0)
    with ThreadPoolExecutor(1) as pool:
        with lacking(motion.shop, what):
            batch = pool.submit(motion.work)
            wait_until(lambda: caplog.text.count("asked again") > 5, PATIENCE, "tries of seconds")
            assert not batch.done()
            assert "role lacks a privilege, which `flask outbox check` names)" in caplog.text
        batch.result(PATIENCE)
    row = shop.email_row(email.id)
    assert (row.status, row.crashes, row.unknown_count) == (Status.SENT, 0, 0)
    assert len(catcher.emails) == 1


def test_a_task_says_what_it_lacks(
    shop: Shop, shops: Shops, caplog: pytest.LogCaptureFixture
) -> None:
    with_celery(shop)
    with lacking(shop, "SELECT ON outbox_email"), outage_in_a_line(sweep):
        shop.statuses()
    assert (
        "gave up, the database's role lacks a privilege, which `flask outbox check`" in caplog.text
    )


def test_a_task_says_so_once_a_minute(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, now = with_celery(shop).tasks, 1000.0
    monkeypatch.setattr(shop.runtime, "clock", lambda: now)
    with lacking(shop, "SELECT ON outbox_lease"):
        for seconds, told in ((0.0, 1), (1.0, 1), (58.0, 1), (2.0, 2)):
            now += seconds
            tasks[sweep.name].run()
            assert caplog.text.count("outbox.sweep gave up, the database's role lacks") == told
    tasks[sweep.name].run()


@pytest.mark.long
def test_a_part_of_a_sweep_that_fails_is_told_once_a_minute(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.enqueue(expires_at=datetime.now(UTC) + timedelta(hours=1))
    shop.later(7200.0)
    tasks, now = with_celery(shop).tasks, 1000.0
    monkeypatch.setattr(shop.runtime, "clock", lambda: now)
    with lacking(shop, "UPDATE ON outbox_email"):
        for seconds, told in ((0.0, 1), (1.0, 1), (60.0, 2)):
            now += seconds
            tasks[sweep.name].run()
            assert caplog.text.count("a sweep could not expire") == told
    tasks[sweep.name].run()
    assert shop.statuses() == [Status.EXPIRED]


SECURITY = (
    "ALTER TABLE outbox_email ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY none ON outbox_email USING (true) WITH CHECK (false)",
)
TRIGGER = (
    "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN PERFORM count(*) FROM orders; RETURN NEW; END $$",
    "CREATE TRIGGER look BEFORE UPDATE ON outbox_email FOR EACH ROW EXECUTE FUNCTION look()",
)
BY_NOBODY = (
    "CREATE USER nobody",
    "GRANT TRIGGER ON outbox_email TO nobody",
    "CREATE DEFINER = nobody TRIGGER look BEFORE UPDATE ON outbox_email FOR EACH ROW"
    " SET NEW.priority = (SELECT count(*) FROM orders)",
)


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("made", [SECURITY, TRIGGER], ids=["row security", "a trigger"])
def test_what_has_the_same_code_and_comes_from_a_row_is_the_rows_own(
    shop: Shop, made: tuple[str, ...]
) -> None:
    with lacking(shop, "ALL ON orders"):
        assert code_of(_met(shop, made)) == "42501"


@pytest.mark.databases("mariadb")
def test_a_privilege_that_a_triggers_definer_lacks_is_the_rows_own(shop: Shop) -> None:
    try:
        assert code_of(_met(shop, BY_NOBODY)) == 1142
    finally:
        with shop.engine.begin() as connection:
            connection.exec_driver_sql("DROP USER nobody")


def _met(shop: Shop, made: Sequence[str]) -> DBAPIError:
    """Return the error of an update with this in its way; it may be a row's own."""
    shop.enqueue()
    owner = sa.create_engine(shop.engine.url)
    with owner.begin() as connection:
        for statement in made:
            connection.exec_driver_sql(statement)
    owner.dispose()
    with pytest.raises(DBAPIError) as met, shop.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE outbox_email SET priority = priority")
    assert may_be_of_a_row(met.value)
    return met.value
