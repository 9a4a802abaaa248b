"""The shop on its databases."""
