"""The watch over one server during a batch."""
