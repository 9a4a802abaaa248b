"""A message becomes an email: rendering, and what is each reader's own."""
