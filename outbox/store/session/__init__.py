"""The caller's session: what must be true before a row of ours is written in it."""
