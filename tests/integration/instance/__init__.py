"""A copy of the outbox, and a restored backup, send nothing; what waits in them is held."""
