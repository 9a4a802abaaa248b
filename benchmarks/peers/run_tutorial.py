"""Celery and Flask-Mail as in tutorials: one task per email calls `mail.send`; there is no table.

It runs in its own environment: `python run_tutorial.py N` fills the queue, and
`celery -A run_tutorial worker` sends.
"""

from __future__ import annotations

import os
import sys

from celery import Celery
from flask import Flask
from flask_mail import Mail, Message

flask_app = Flask(__name__)
flask_app.config.update(
    MAIL_SERVER="127.0.0.1", MAIL_PORT=int(os.environ.get("BENCH_SMTP_PORT", "25"))
)
mail = Mail(flask_app)
app = Celery(__name__, broker=os.environ["BENCH_BROKER"])
app.conf.update(task_ignore_result=True)


@app.task(name="send_mail")
def send_mail(subject: str, sender: str, recipient: str, text: str, html: str) -> None:
    """Send one email, over a connection of its own as `Mail.send` does."""
    with flask_app.app_context():
        mail.send(Message(subject, sender=sender, recipients=[recipient], body=text, html=html))


def fill(emails: int) -> None:
    """Queue the emails."""
    text, html = os.environ["BENCH_TEXT"], os.environ["BENCH_HTML"]
    for number in range(emails):
        to = f"customer-{number}@example.com"
        send_mail.delay("Your order", "shop@example.com", to, text, html)


if __name__ == "__main__":
    fill(int(sys.argv[1]))
