"""How the outbox joins a Celery app and a Flask app, and what each worker checks at its start."""
