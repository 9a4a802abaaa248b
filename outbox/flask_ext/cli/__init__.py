"""The `flask outbox` commands."""
