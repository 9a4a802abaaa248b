"""django-post_office at its best setting. Runs in its own environment: `fill N` or `send`.

Two processes of five threads, batches of 5,000, only failures logged, connections kept.
"""

from __future__ import annotations

import os
import sys

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


def fill(mails: int) -> None:
    """Make the tables and queue the mails."""
    from post_office import mail

    call_command("migrate", verbosity=0)
    text, html = os.environ["BENCH_TEXT"], os.environ["BENCH_HTML"]
    for start in range(0, mails, 1000):
        mail.send_many(
            [
                {
                    "sender": "shop@example.com",
                    "recipients": [f"customer-{number}@example.com"],
                    "subject": "Your order",
                    "message": text,
                    "html_message": html,
                }
                for number in range(start, min(mails, start + 1000))
            ]
        )


django.setup()
if sys.argv[1] == "fill":
    fill(int(sys.argv[2]))
else:
    call_command("send_queued_mail", processes=2, log_level=1)
