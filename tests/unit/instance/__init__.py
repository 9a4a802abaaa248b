"""The rule by which an outbox is told from its copy."""
