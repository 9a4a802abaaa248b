"""A table of the app's own that has one of our names is not taken for ours."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine

from outbox import ConfigurationError
from outbox.store.schema.tables import define


def test_a_model_of_the_apps_own_with_our_name_is_refused() -> None:
    """Flask-SQLAlchemy names the table of a model `OutboxEmail` so."""
    metadata = MetaData()
    Table("outbox_email", metadata, Column("id", Integer, primary_key=True))
    with pytest.raises(ConfigurationError, match=r"outbox_email.*rename"):
        define(metadata)


def test_one_column_is_enough_to_tell() -> None:
    metadata = MetaData()
    define(metadata)
    metadata.remove(metadata.tables["outbox_pause"])
    Table("outbox_pause", metadata, Column("scope", String(20), primary_key=True))
    with pytest.raises(ConfigurationError, match="outbox_pause"):
        define(metadata)


def test_our_tables_are_found_again_as_they_were_made() -> None:
    metadata = MetaData(schema="mail")
    assert define(metadata).email is define(metadata).email


def test_our_tables_may_have_been_reflected() -> None:
    engine, made, reflected = create_engine("sqlite://"), MetaData(), MetaData()
    define(made)
    made.create_all(engine)
    reflected.reflect(engine)
    found = reflected.tables["outbox_email"]
    assert define(reflected).email is found
    engine.dispose()
