"""SQLite in memory has one connection for everybody: to look at it must not end a transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from outbox import ConfigurationError, Outbox, Status
from tests.integration import schema
from tests.integration.conftest import message


@pytest.fixture(params=[SingletonThreadPool, StaticPool])
def engine(request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    """In memory, as SQLAlchemy pools it and as Flask-SQLAlchemy does."""
    made = sa.create_engine("sqlite://", poolclass=request.param)
    yield made
    made.dispose()


def test_counts_within_a_transaction_is_refused_and_does_not_commit_it(engine: sa.Engine) -> None:
    metadata, outbox = sa.MetaData(), Outbox()
    source = scoped_session(sessionmaker(engine))
    outbox.init_app(Flask("shop"), session=source, metadata=metadata, engine=engine)
    orders = schema.orders(metadata)
    metadata.create_all(engine)
    with Session(engine) as session:
        session.execute(sa.insert(orders).values(customer="Ada"))
        outbox.enqueue(message(), session=session)
        with pytest.raises(ConfigurationError, match="in memory"):
            outbox.counts()
        session.rollback()
        assert session.execute(sa.select(orders)).all() == []
        outbox.enqueue(message(), session=session)
        session.commit()
        assert outbox.counts() == {Status.PENDING: 1}
