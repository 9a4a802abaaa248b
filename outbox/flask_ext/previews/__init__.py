"""Shows messages as readers would get them, in development: `/outbox/previews`."""
