"""The controls around the emails: breakers, caps, rates, pauses, suppression and counters."""
