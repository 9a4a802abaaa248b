"""How much is asked of the database and of memory, at work and with nothing to do."""
