"""Erases a person: their emails lose the address and all that they said."""
