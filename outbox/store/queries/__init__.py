"""Questions to the tables; nothing is written here."""
