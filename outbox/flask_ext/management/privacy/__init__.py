"""The verbs for one person's data: export all of it, or erase it."""
