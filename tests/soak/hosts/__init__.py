"""The hosts of the soak and their wires: what is broken."""
