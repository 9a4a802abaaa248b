"""What depends on the database's driver."""
