"""How fast a backlog goes out: over a long way too, from a full table, from one SQLite file."""
