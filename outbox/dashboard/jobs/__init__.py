"""The jobs: an action on all messages that a search finds, from its dry run to its end."""
