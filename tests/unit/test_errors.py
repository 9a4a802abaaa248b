"""The errors of the library stay what they are on their way from another process."""

from __future__ import annotations

import copy
import pickle

import pytest

import outbox
from outbox import ConfigurationError, InvalidMessage, KeyConflict, OutboxError, RowsLocked
from outbox.flask_ext.app.state import MissingApp
from outbox.flask_ext.session.undone import TransactionUndone
from outbox.store.connection.error_codes import MissingTables
from outbox.store.connection.sqlite.memory import Busy

ADDRESS = "ada@x.example"
MADE: dict[type[OutboxError], tuple[object, ...]] = {
    InvalidMessage: ("tag", "is too long"),
    KeyConflict: ("order-17",),
    RowsLocked: (),
}
"""What makes an error; another one is made of its text."""
ERRORS = [
    *(kind for kind in map(outbox.__dict__.get, outbox.__all__) if isinstance(kind, type)),
    MissingApp,
    MissingTables,
    TransactionUndone,
    Busy,
]
ERRORS = [kind for kind in ERRORS if issubclass(kind, OutboxError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_is_the_same_after_a_process_pool_has_pickled_it(kind: type[OutboxError]) -> None:
    error = kind(*MADE.get(kind, ("what to do",)))
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
        assert str(error)


def test_the_public_errors_are_among_them() -> None:
    assert {InvalidMessage, KeyConflict, RowsLocked, ConfigurationError} < set(ERRORS)


@pytest.mark.parametrize("error", [InvalidMessage("recipients", "is wrong"), KeyConflict("a")])
def test_an_error_in_a_list_keeps_its_place_and_not_the_value(
    error: InvalidMessage | KeyConflict,
) -> None:
    told = error.at("recipients", 2, ADDRESS)
    pickled = pickle.dumps(told)
    again = pickle.loads(pickled)
    assert ADDRESS.encode() not in pickled
    assert vars(again) == vars(told) | {"value": None}
    assert (str(again), again.index) == (str(told), 2)
    nested = [one.at("messages", 3, None) for one in (again, told)]
    assert str(nested[0]) == str(nested[1])
