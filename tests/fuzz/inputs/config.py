"""A setting is taken, or refused by an error that names its key, whatever stands there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from flask import Flask
from hypothesis import strategies as st
from sqlalchemy.orm import scoped_session, sessionmaker

from outbox import ConfigurationError, Outbox
from outbox.domain.config.settings import PREFIX, Settings
from tests.fuzz.campaign import Property
from tests.fuzz.inputs.texts import ANY, around, mutated

KEYS = [PREFIX + field.name.upper() for field in dataclasses.fields(Settings)]
MAIL_KEYS = ["SERVER", "PORT", "USERNAME", "PASSWORD", "USE_TLS", "USE_SSL", "MAX_EMAILS"]
MAIL = [f"MAIL_{name}" for name in MAIL_KEYS]
ENTRY = ["name", "server", "port", "username", "password", "use_tls", "use_ssl", "rate",
         "connections", "order", "weight"]  # fmt: skip
RULE = ["name", "tag", "sender_domain", "servers"]

NUMBERS: st.SearchStrategy[Any] = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -1, 1, 2**31, 2**63, 10**400, -(10**400), 1e308, float("nan"), 65536]),
)
TEXTS = around("500/min", "1/s", "0/day", "a@x.example", "x.example", "mx.example", "hold", "a-1")
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, ANY, st.binary(max_size=5))


def _dicts(keys: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(keys) | mutated(st.sampled_from(keys)) | SCALARS
    return st.dictionaries(names, values, max_size=5)


ENTRIES = st.fixed_dictionaries(
    {"server": st.just("mx.example") | SCALARS},
    optional={key: SCALARS for key in ENTRY if key != "server"},
)
RULES = st.fixed_dictionaries(
    {"name": st.just("a") | SCALARS, "servers": st.just(["mx.example:25"]) | st.lists(SCALARS)},
    optional={"tag": SCALARS, "sender_domain": SCALARS},
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    SCALARS,
    st.lists(SCALARS | ENTRIES | RULES, max_size=3),
    _dicts(["gmail.com", "x.example"], SCALARS),
    st.lists(ENTRIES | _dicts(ENTRY, SCALARS), max_size=3),
    st.lists(RULES | _dicts(RULE, SCALARS), max_size=3),
)
CONFIGS = st.one_of(
    st.dictionaries(st.sampled_from(KEYS), NUMBERS, min_size=1, max_size=2),
    st.dictionaries(st.sampled_from(KEYS + MAIL), VALUES, max_size=3),
    st.dictionaries(mutated(st.sampled_from(KEYS)), VALUES, max_size=2),
    st.fixed_dictionaries({"OUTBOX_SERVERS": st.lists(ENTRIES, min_size=1, max_size=3)}),
    st.fixed_dictionaries(
        {
            "OUTBOX_SERVERS": st.just([{"server": "mx.example"}]),
            "OUTBOX_ROUTES": st.lists(RULES, min_size=1, max_size=3),
        }
    ),
)


@contextmanager
def properties() -> Iterator[list[Property]]:
    """Nothing has to run."""
    yield [Property(source="settings", inputs=CONFIGS, holds=_holds)]


def _holds(config: dict[str, Any]) -> None:
    app = Flask("shop")
    app.config.update(config)
    engine = sa.create_engine("sqlite://")
    session = scoped_session(sessionmaker(engine))
    try:
        Outbox().init_app(app, metadata=sa.MetaData(), engine=engine, session=session)
    except ConfigurationError as error:
        _names_a_key(str(error), config)
    else:
        assert all(key in KEYS for key in config if key.startswith(PREFIX))
        _usable(app)
    finally:
        engine.dispose()


def _names_a_key(text: str, config: dict[str, Any]) -> None:
    """The text says which key is wrong, and suggests the right one for one that is nearly it."""
    named = [key for key in (*config, *KEYS, *MAIL) if key in text]
    assert named, text
    for key in config:
        if f"unknown setting {key}" in text and any(_near(key, known) for known in KEYS):
            assert "did you mean OUTBOX_" in text


def _near(key: str, known: str) -> bool:
    """One letter too many, or one too few."""
    longer, shorter = sorted((key, known), key=len, reverse=True)
    return len(longer) - len(shorter) == 1 and any(
        longer[:place] + longer[place + 1 :] == shorter for place in range(len(longer))
    )


def _usable(app: Flask) -> None:
    """What was taken can be worked with: a sweep on an empty table, and a purge."""
    runtime = app.extensions["outbox"].runtime
    runtime.tables.email.metadata.create_all(runtime.database.engine)
    results = [app.test_cli_runner().invoke(args=["outbox", word]) for word in ("sweep", "purge")]
    for result in results:
        assert result.exit_code == 0, repr(result.exception)
