"""What surrounds the emails: breakers, caps, rates, pauses, suppression and counters."""
