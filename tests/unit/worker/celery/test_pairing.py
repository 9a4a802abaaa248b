"""A task finds its Flask app through its Celery app, or says why it cannot."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from celery import Celery
from celery.concurrency.thread import TaskPool
from celery.signals import celeryd_after_setup
from flask import Flask

from outbox import ConfigurationError, Outbox
from outbox.celery_config import configure
from outbox.worker.process.runtime import Runtime
from outbox.worker.setup.pairing import runtime_of

URL = "sqlite:///of-nobody.db"


@pytest.fixture
def celery() -> Celery:
    return Celery("shop", broker="memory://", set_as_current=False)


def flask_app(
    name: str = "shop", url: str = URL, moves: dict[str | None, str] | None = None, **settings: Any
) -> Flask:
    flask = Flask(name)
    flask.config.update(settings)
    engine = sa.create_engine(url, execution_options={"schema_translate_map": moves})
    Outbox().init_app(flask, metadata=sa.MetaData(), engine=engine)
    return flask


def runtime(flask: Flask) -> Runtime:
    found: Runtime = flask.extensions["outbox"].runtime
    return found


def started(celery: Celery) -> None:
    """Start a worker, as far as its signal goes. The double stands for Celery's Worker."""
    worker = SimpleNamespace(
        app=celery, concurrency=1, pool_cls=TaskPool, time_limit=None, soft_time_limit=None
    )
    celeryd_after_setup.send(sender="host", instance=worker, conf=celery.conf)


@pytest.fixture
def two_apps(celery: Celery) -> Iterator[tuple[Flask, Flask]]:
    made = flask_app("shop"), flask_app("admin", "sqlite:///of-another.db")
    for flask in made:
        configure(celery, flask)
    yield made
    configure(celery, Flask("nobody's"))  # nothing of this test stays


@pytest.mark.long
@pytest.mark.usefixtures("two_apps")
def test_flask_apps_with_different_databases_are_refused(
    celery: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    told = r"several Flask apps .* have this Celery app \(shop, admin\): give each a Celery app"
    with pytest.raises(ConfigurationError, match=told):
        celery.tasks["outbox.sweep"].run()
    started(celery)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "(shop, admin): give each a Celery app of its own" in caplog.text


@pytest.mark.long
def test_so_are_those_with_different_settings_or_servers(celery: Celery) -> None:
    kept = flask_app()
    configure(celery, kept)
    for differing in ({"OUTBOX_WINDOW": 3}, {"MAIL_SERVER": "mail.example"}):
        other = flask_app(**differing)
        configure(celery, other)
        with pytest.raises(ConfigurationError, match="several Flask apps"):
            runtime_of(celery)
        configure(celery, kept)
        del other
        gc.collect()
    assert runtime_of(celery) is runtime(kept)


@pytest.mark.long
def test_so_are_those_of_tenants_with_a_schema_each(celery: Celery) -> None:
    made = [flask_app(name, moves={None: name}) for name in ("shop", "other")]
    for flask in made:
        configure(celery, flask)
    with pytest.raises(ConfigurationError, match=r"several Flask apps .* \(shop, other\)"):
        runtime_of(celery)


@pytest.mark.parametrize("moves", [None, {None: "tenant"}])
def test_the_same_flask_app_may_be_made_twice(
    celery: Celery, moves: dict[str | None, str] | None
) -> None:
    made = [flask_app(moves=moves), flask_app(moves=moves)]
    for flask in made:
        configure(celery, flask)
    assert runtime_of(celery) is runtime(made[1])


@pytest.mark.long
def test_an_app_that_nobody_holds_any_more_does_not_count(celery: Celery) -> None:
    configure(celery, flask_app(url="sqlite:///of-an-earlier-test.db"))
    kept = flask_app()
    configure(celery, kept)
    assert runtime_of(celery) is runtime(kept)


@pytest.mark.long
def test_celery_apps_in_the_extensions_are_looked_through_the_same_way(celery: Celery) -> None:
    made = flask_app("shop"), flask_app("admin", "sqlite:///of-another.db")
    for flask in made:
        flask.extensions["celery"] = celery
    with pytest.raises(ConfigurationError, match="several Flask apps"):
        runtime_of(celery)


def test_each_of_two_flask_apps_with_a_celery_app_of_its_own_is_found(celery: Celery) -> None:
    other = Celery("admin", broker="memory://", set_as_current=False)
    shop, admin = flask_app("shop"), flask_app("admin", "sqlite:///of-another.db")
    configure(celery, shop)
    configure(other, admin)
    assert (runtime_of(celery), runtime_of(other)) == (runtime(shop), runtime(admin))


@pytest.mark.long
def test_the_celery_app_keeps_the_flask_app_alive_and_no_other() -> None:
    celery = Celery("shop", broker="memory://", set_as_current=False)
    flask = flask_app()
    configure(celery, flask)
    name = weakref.ref(flask)
    del flask
    gc.collect()
    assert runtime_of(celery).app is name()
    gone = weakref.ref(celery)
    celery.close()
    del celery
    gc.collect()
    assert (gone(), name()) == (None, None)


def test_a_worker_whose_module_made_no_flask_app_says_so(
    celery: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    configure(celery, Flask("without an outbox"))
    started(celery)
    told = "the module that `celery -A` names must create the Flask app"
    assert [told in record.getMessage() for record in caplog.records] == [True]
    with pytest.raises(ConfigurationError, match="no Flask app with an outbox has this Celery app"):
        celery.tasks["outbox.purge"].run()


def test_a_worker_of_a_celery_app_beside_the_outboxs_says_nothing(
    celery: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    flask = flask_app()
    configure(celery, flask)
    started(Celery("reports", broker="memory://", set_as_current=False))
    assert caplog.records == []
