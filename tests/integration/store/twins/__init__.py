"""A database's own way and the portable one, on the same rows."""
