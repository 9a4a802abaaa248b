"""Bad input in bulk: one property for each source of input, tried on as many inputs as you like."""
