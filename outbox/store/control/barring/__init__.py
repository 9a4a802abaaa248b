"""Who gets no email: the suppression list and erased people together."""
