"""What the outbox counts of its attempts, and what is computed from the counts."""
