"""After a restore: what keeps a copy from sending, what is held, and how it is released."""
