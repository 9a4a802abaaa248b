"""Each action of the models names what it models, and that is there."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.model.spin import MODELS, sources

_COMMENT = r"/\*((?:(?!\*/).)*)\*/\n(?:#define (?:[^\n]*\\\n)*[^\n]*\n\n?)?"
_ACTION = re.compile(rf"(?:{_COMMENT})?inline (\w+)", re.DOTALL)
ENVIRONMENT = "environment"
OWN = {"promise"}  # of the models themselves


def actions(model: str) -> dict[str, str]:
    """Return each action's comment by the action's name."""
    found: dict[str, str] = {}
    for source in sources(model):
        for comment, name in _ACTION.findall(source.read_text("utf-8")):
            found[name] = comment
    return {name: comment for name, comment in found.items() if name not in OWN}


ACTIONS = {(model, action): text for model in MODELS for action, text in actions(model).items()}
SOME = {
    "outbox": {"commit", "claim", "publish", "rescue", "take", "advance", "finish", "crash"},
    "breaker": {"claim", "try", "be_halted", "charge", "trip", "take_probe", "settle", "die"},
}


def named(comment: str) -> list[str]:
    return re.findall(r"\boutbox(?:\.\w+)+", comment)


def lookup(name: str) -> object:
    """Return the object of this dotted name, or raise."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


@pytest.mark.parametrize("model", MODELS)
def test_there_are_actions(model: str) -> None:
    assert SOME[model] <= set(actions(model))


@pytest.mark.parametrize(("model", "action"), sorted(ACTIONS))
def test_each_action_names_what_it_models(model: str, action: str) -> None:
    comment = ACTIONS[model, action]
    assert named(comment) or ENVIRONMENT in comment, f"{action}: {comment!r}"
    for name in named(comment):
        assert callable(lookup(name)), name


def test_a_name_that_is_not_there_is_noticed() -> None:
    with pytest.raises(AttributeError):
        lookup("outbox.store.transitions.claim.claim_all")
