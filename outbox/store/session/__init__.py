"""The caller's session: what must hold before the outbox writes rows in it."""
