"""What each shop of the tests is made of, however it is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session

from outbox import Outbox
from outbox.flask_ext.app.state import state_of
from outbox.worker.process.runtime import Runtime


@dataclass(kw_only=True)
class Parts:
    """An app, its outbox, and the orders that its emails commit with."""

    app: Flask
    outbox: Outbox
    engine: sa.Engine
    orders: sa.Table
    sessions: Callable[[], Session]

    @property
    def runtime(self) -> Runtime:
        return state_of(self.app).runtime
