"""The parts of a message, and their octets on the wire."""
