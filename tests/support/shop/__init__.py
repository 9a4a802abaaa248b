"""A small shop with an outbox, and what moves, counts and commands it without Celery."""
