"""What SQLite does differently."""
