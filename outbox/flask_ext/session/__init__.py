"""The caller's session: its source, its events and its savepoints."""
