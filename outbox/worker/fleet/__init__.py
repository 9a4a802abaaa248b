"""The fleet: the workers of one outbox, what each writes of itself, and what each answers."""
