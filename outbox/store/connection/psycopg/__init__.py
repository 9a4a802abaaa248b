"""What is done for the driver psycopg alone, over a connection of the outbox's own."""
