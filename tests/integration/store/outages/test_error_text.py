"""No address, key or tag is in the text of an error: an app logs it with a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, StatementError

from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.each_database

PERSON = "victim@secret.example"
VERBS: dict[str, tuple[str, Callable[[Shop], object]]] = {
    "enqueue": ("email", lambda shop: shop.enqueue(PERSON, key=PERSON)),
    "cancel": ("email", lambda shop: cancelled(shop)),
    "list": ("email", lambda shop: shop.outbox.list(key=PERSON)),
    "suppressed": ("suppression", lambda shop: shop.outbox.suppressed(address=PERSON)),
    "suppress": ("suppression", lambda shop: shop.outbox.suppress(PERSON)),
}


def cancelled(shop: Shop) -> int:
    with shop.session() as session:
        return shop.outbox.cancel(key=PERSON, session=session)


@pytest.mark.matrix
@pytest.mark.parametrize("verb", VERBS)
def test_an_error_does_not_name_the_person(shop: Shop, verb: str) -> None:
    table, work = VERBS[verb]
    broken = getattr(shop.tables, table).name
    fail = sa.event.listens_for(shop.engine, "before_cursor_execute", retval=True)

    @fail
    def misspell(_c: object, _u: object, statement: str, values: object, *_: object) -> object:
        return statement.replace(f" {broken}", f" x{broken}"), values

    with shop.app.app_context(), pytest.raises((StatementError, sa.exc.SQLAlchemyError)) as caught:
        work(shop)
    sa.event.remove(shop.engine, "before_cursor_execute", misspell)
    told = "".join(traceback.format_exception(caught.value))
    assert broken in told
    assert PERSON not in told


@pytest.mark.parametrize("path", ["run", "read"])
def test_an_error_of_the_values_does_not_name_the_person(shop: Shop, path: str) -> None:
    """SQLAlchemy refuses them, so it is no error of the driver."""
    look = sa.text("SELECT 1 FROM outbox_suppression WHERE address = :address AND reason = :reason")
    with pytest.raises(StatementError, match="reason") as caught:
        getattr(shop.database, path)(
            lambda connection: connection.execute(look, {"address": PERSON})
        )
    assert not isinstance(caught.value, DBAPIError)
    assert PERSON not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("path", ["run", "read"])
def test_nor_does_the_error_that_it_led_to(shop: Shop, path: str) -> None:
    look = sa.text("SELECT 1 FROM outbox_nowhere WHERE address = :address")

    def fail_further(connection: sa.Connection) -> None:
        try:
            connection.execute(look, {"address": PERSON})
        except DBAPIError as error:
            raise ValueError("a fault of ours") from error

    with pytest.raises(ValueError, match="a fault of ours") as caught:
        getattr(shop.database, path)(fail_further)
    told = "".join(traceback.format_exception(caught.value))
    assert "outbox_nowhere" in told
    assert PERSON not in told


def test_the_message_has_the_person(shop: Shop) -> None:
    """So the test above can fail: the address does reach the database."""
    assert shop.email_row(shop.enqueue(PERSON).id).recipient == message(PERSON)["To"]
