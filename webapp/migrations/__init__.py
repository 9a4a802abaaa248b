"""The shop's migrations: Alembic's environment, and in `versions` a script for each step."""
