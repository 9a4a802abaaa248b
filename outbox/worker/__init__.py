"""The Celery tasks: a sweep claims emails, a send task sends them, and both record in the table."""
