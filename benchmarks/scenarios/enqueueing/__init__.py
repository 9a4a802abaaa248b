"""How long it takes to write emails, one by one and many at once."""
