"""The instance: is this outbox the original, and what is held since it was restored?"""
