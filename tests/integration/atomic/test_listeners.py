"""A listener of the app's on its sessions enqueues, and this is the first email of the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import sys
from flask import Flask
from flask_mail import Message
from sqlalchemy import create_engine, event
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, scoped_session, sessionmaker
from outbox import Outbox

class Base(DeclarativeBase):
    pass

class Order(Base):
    __tablename__ = "order"
    id: Mapped[int] = mapped_column(primary_key=True)

app, outbox, engine = Flask("shop"), Outbox(), create_engine("sqlite:///" + sys.argv[2])
session = scoped_session(sessionmaker(engine))
outbox.init_app(app, session=session, metadata=Base.metadata, engine=engine)
Base.metadata.create_all(engine)
is_first = True

def confirm(*seen):
    global is_first
    if not is_first or getattr(seen[-1], "parent", None):  # a flush ends a transaction, too
        return
    is_first, message = False, Message("Hi", ["ada@x.example"], "Hi.", sender="shop@x.example")
    if sys.argv[1] != "after_transaction_end":
        outbox.enqueue(message)
        return
    with sessionmaker(engine)() as other:
        outbox.enqueue(message, session=other)
        other.commit()

event.listen(session, sys.argv[1], confirm)
with app.app_context():
    session.add(Order())
    session.commit()
    session.remove()
    print(outbox.backlog().due)
"""


@pytest.mark.parametrize(
    "name",
    [
        "before_commit",
        pytest.param("after_flush", marks=pytest.mark.long),
        pytest.param("after_transaction_end", marks=pytest.mark.long),
    ],
)
def test_the_first_email_of_a_process_comes_out_of_a_listener(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, name, str(tmp_path / "shop.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
