"""A whole system: web app, database, broker, SMTP server, workers, beat."""
