"""New rows: emails, contents, and many at once."""
