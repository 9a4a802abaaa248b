"""The dashboard: who is let in, what its pages show, and what its forms do."""
