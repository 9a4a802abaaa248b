"""The verbs of `Outbox` and `flask outbox`: what a person or a program does with emails."""
