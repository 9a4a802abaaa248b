"""Suites of other projects, unmodified, with an outbox in each app."""
