"""Programs that others wrote, and that read what we render."""
