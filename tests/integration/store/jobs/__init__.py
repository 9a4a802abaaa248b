"""The jobs: each step on each database."""
