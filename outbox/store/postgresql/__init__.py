"""What PostgreSQL does in one statement where others take several."""
