"""What PostgreSQL's catalog tells of the outbox's tables."""
