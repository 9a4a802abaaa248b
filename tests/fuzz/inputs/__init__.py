"""What is put in, and what must hold for it."""
