"""A message becomes an email: rendered, and each reader's own."""
