"""SMTP servers: one that remembers, one that follows a script, Postfix, and others."""
