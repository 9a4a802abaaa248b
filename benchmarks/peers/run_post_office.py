"""django-post_office with its fastest settings. It runs in its own environment.

`fill N` queues emails with `send_many`, and prints the seconds that it took. `one N` queues them
one by one, each in a transaction with a business row, and prints the seconds. `send` sends them
with two processes of five threads, in batches of 5,000. It logs only failures, and keeps its
connections.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    SECRET_KEY="bench",
    INSTALLED_APPS=["django.contrib.contenttypes", "post_office"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["BENCH_DATABASE"],
            "USER": "postgres",
            "HOST": "127.0.0.1",
            "PORT": os.environ["BENCH_DATABASE_PORT"],
        }
    },
    EMAIL_BACKEND="post_office.EmailBackend",
    EMAIL_HOST="127.0.0.1",
    EMAIL_PORT=int(os.environ["BENCH_SMTP_PORT"]),
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    POST_OFFICE={
        "THREADS_PER_PROCESS": 5,
        "BATCH_SIZE": 5000,
        "LOG_LEVEL": 1,
        "DEFAULT_PRIORITY": "medium",
    },
    TEMPLATES=[
        {"BACKEND": "django.template.backends.django.DjangoTemplates"},
        {"BACKEND": "post_office.template.backends.post_office.PostOfficeTemplates"},
    ],
)


def fill(emails: int) -> None:
    """Queue the emails in bulk."""
    from post_office import mail

    for start in range(0, emails, 1000):
        mail.send_many([_email(number) for number in range(start, min(emails, start + 1000))])


def one_by_one(emails: int) -> None:
    """Queue the emails one by one, each with its business row."""
    from django.db import connection, transaction
    from post_office import mail

    for number in range(emails):
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO business (customer) VALUES (%s)", [f"c{number}"])
            mail.send(**_email(number))


def _email(number: int) -> dict[str, Any]:
    return {
        "sender": "shop@example.com",
        "recipients": [f"customer-{number}@example.com"],
        "subject": "Your order",
        "message": os.environ["BENCH_TEXT"],
        "html_message": os.environ["BENCH_HTML"],
    }


def _timed(work: Callable[[int], None], emails: int) -> None:
    from django.db import connection

    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE business (id serial PRIMARY KEY, customer varchar(100) NOT NULL)"
        )
    begun = time.perf_counter()
    work(emails)
    print(time.perf_counter() - begun)


django.setup()
if sys.argv[1] == "send":
    call_command("send_queued_mail", processes=2, log_level=1, lockfile=os.environ["BENCH_LOCK"])
else:
    _timed(fill if sys.argv[1] == "fill" else one_by_one, int(sys.argv[2]))
