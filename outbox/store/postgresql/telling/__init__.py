"""Writes on PostgreSQL what only tells how things stand: no email depends on it."""
