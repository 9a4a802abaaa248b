"""The session's events, its savepoints and its source."""
