"""`configure` joins one Celery app with one Flask app, and each is found through the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from flask import Flask, current_app

from outbox import ConfigurationError
from outbox.celery_config import configure
from outbox.worker.setup.pairing import celery_of
from tests.unit.worker.celery.test_configure import app_with, flask_app


def test_the_celery_app_is_found_through_flask_s_extensions() -> None:
    celery, flask = app_with(), flask_app()
    configure(celery, flask)
    assert flask.extensions["celery"] is celery
    assert celery_of(flask) is celery


def test_what_another_extension_has_put_there_stays() -> None:
    celery, flask = app_with(), flask_app()
    theirs = flask.extensions["celery"] = object()
    assert celery_of(flask) is None
    configure(celery, flask)
    assert flask.extensions["celery"] is theirs
    assert celery_of(flask) is celery


def test_a_second_celery_app_for_the_same_flask_app_is_refused() -> None:
    flask = flask_app()
    configure(app_with(), flask)
    with pytest.raises(ConfigurationError, match="has another Celery app already"):
        configure(app_with(), flask)


def test_the_wrong_order_and_other_things_are_refused() -> None:
    wrong: Any = flask_app()
    with pytest.raises(ConfigurationError, match="not: Flask, Celery"):
        configure(wrong, app_with())


@pytest.fixture
def context() -> Iterator[Flask]:
    flask = flask_app()
    with flask.app_context():
        yield flask


def test_proxies_are_taken_for_what_they_stand_for(context: Flask) -> None:
    from celery import current_app as current_celery

    configure(current_celery, current_app)
    found = celery_of(context)
    assert isinstance(found, Celery)
    assert found is current_celery._get_current_object()
